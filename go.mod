module github.com/readroute/readroute

go 1.25.0

require (
	github.com/go-sql-driver/mysql v1.10.1
	github.com/jackc/pgx/v5 v5.12.0
	github.com/stretchr/testify v1.11.1
)
