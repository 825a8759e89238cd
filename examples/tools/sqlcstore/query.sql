-- name: AddAuthor :one
INSERT INTO authors (name) VALUES ($1) RETURNING id;

-- name: RenameAuthor :exec
UPDATE authors SET name = $2 WHERE id = $1;

-- name: AuthorName :one
SELECT name FROM authors WHERE id = $1;

-- name: AddBook :one
INSERT INTO books (author_id, title) VALUES ($1, $2) RETURNING *;

-- name: CountBooks :one
SELECT count(*) FROM books WHERE author_id = $1;

-- name: BooksOfAuthor :many
SELECT sqlc.embed(authors), sqlc.embed(books)
FROM authors JOIN books ON books.author_id = authors.id
WHERE authors.id = $1 ORDER BY books.id;
