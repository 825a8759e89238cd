package sqlclass_test

import (
	"testing"

	"github.com/readroute/readroute/internal/sqlclass"
)

const (
	typical = `SELECT u.id, u.name, count(o.id) AS orders, coalesce(sum(o.total), 0) AS total FROM users u LEFT JOIN orders o ON o.user_id = u.id WHERE u.created_at > now() - interval '7 days' AND lower(u.email) = $1 GROUP BY u.id, u.name ORDER BY total DESC LIMIT 20`
)

func BenchmarkClassify(b *testing.B) {
	my := `SELECT u.id, u.name, count(o.id) AS orders, coalesce(sum(o.total), 0) AS total FROM users u LEFT JOIN orders o ON o.user_id = u.id WHERE u.created_at > now() - interval 7 day AND lower(u.email) = ? GROUP BY u.id, u.name ORDER BY total DESC LIMIT 20`
	for _, c := range []struct {
		name string
		d    sqlclass.Dialect
		text string
	}{
		{"postgres", sqlclass.PostgreSQL, typical},
		{"postgres/short", sqlclass.PostgreSQL, `SELECT "users"."id", "users"."name", "users"."email" FROM "users" WHERE "users"."id" = $1 AND "users"."deleted_at" IS NULL LIMIT 1`},
		{"mysql", sqlclass.MySQL, my},
		{"mysql/short", sqlclass.MySQL, "SELECT `users`.`id`, `users`.`name`, `users`.`email` FROM `users` WHERE `users`.`id` = ? AND `users`.`deleted_at` IS NULL LIMIT 1"},
		{"mysql/write", sqlclass.MySQL, "INSERT INTO `orders` (`user_id`, `total`, `created_at`, `note`) VALUES (12345, 99.95, '2026-01-01 10:00:00', 'some text that is a little longer')"},
		{"mariadb", sqlclass.MariaDB, my},
	} {
		b.Run("text/"+c.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(c.text)))
			for b.Loop() {
				sqlclass.ClassifyText(c.d, c.text)
			}
		})
	}
	for _, name := range []string{"list", "strings", "rows", "calls", "comments", "names", "variables", "empty", "names and dot"} {
		text := hard[name](10 << 20)
		b.Run("10MiB/"+name, func(b *testing.B) { // in both dialects, each under 100 ms
			b.ReportAllocs()
			b.SetBytes(2 * int64(len(text)))
			for b.Loop() {
				sqlclass.ClassifyText(sqlclass.MySQL, text)
				sqlclass.ClassifyText(sqlclass.PostgreSQL, text)
			}
		})
	}
	b.Run("cached", func(b *testing.B) {
		c, _ := sqlclass.New(sqlclass.Options{Dialect: sqlclass.PostgreSQL})
		c.Classify(typical)
		c.Classify(typical)
		b.ReportAllocs()
		for b.Loop() {
			c.Classify(typical)
		}
	})
	b.Run("cached/parallel", func(b *testing.B) {
		c, _ := sqlclass.New(sqlclass.Options{Dialect: sqlclass.PostgreSQL})
		c.Classify(typical)
		c.Classify(typical)
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				c.Classify(typical)
			}
		})
	})
}
