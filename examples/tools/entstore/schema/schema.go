// Package schema says what there is, for ent's generator.
package schema

import (
	"entgo.io/ent"
	"entgo.io/ent/schema/edge"
	"entgo.io/ent/schema/field"
)

// Author has books and reviews.
type Author struct{ ent.Schema }

// Fields are the columns.
func (Author) Fields() []ent.Field { return []ent.Field{field.Int64("id"), field.String("name")} }

// Edges are the associations.
func (Author) Edges() []ent.Edge {
	return []ent.Edge{edge.To("books", Book.Type)}
}

// Book belongs to an author.
type Book struct{ ent.Schema }

// Fields are the columns.
func (Book) Fields() []ent.Field { return []ent.Field{field.Int64("id"), field.String("title")} }

// Edges are the associations.
func (Book) Edges() []ent.Edge {
	return []ent.Edge{edge.From("author", Author.Type).Ref("books").Unique().Required()}
}

// Review has a table that is made later.
type Review struct{ ent.Schema }

// Fields are the columns.
func (Review) Fields() []ent.Field {
	return []ent.Field{field.Int64("id"), field.Int64("author_id"), field.String("body")}
}
