-- name: AddReview :exec
INSERT INTO reviews (author_id, body) VALUES ($1, $2);

-- name: Reviews :many
SELECT body FROM reviews WHERE author_id = $1 ORDER BY id;
