package readroute_test

import (
	"database/sql"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
)

// TestParityMySQLSessionState: on one connection everything is as on one connection of the bare driver.
func TestParityMySQLSessionState(t *testing.T) {
	compareMySQLParity(t, mysqlScript{name: "Ids", run: func(p *mysqlParity) {
		p.exec(p.db, "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v INT)")
		p.exec(p.db, "CREATE TABLE seq (id INT)")
		p.exec(p.db, "INSERT INTO seq VALUES (41)")
		p.exec(p.db, "INSERT INTO t (v) VALUES (1), (2), (3)")
		p.exec(p.db, "INSERT INTO t (id, v) VALUES (10, 1) ON DUPLICATE KEY UPDATE v = v + 1")
		p.exec(p.db, "INSERT INTO t (id, v) VALUES (10, 1) ON DUPLICATE KEY UPDATE v = v + 1")
		p.exec(p.db, "INSERT IGNORE INTO t (id, v) VALUES (10, 1), (11, 1)")
		p.exec(p.db, "REPLACE INTO t (id, v) VALUES (10, 5)")
		p.exec(p.db, "UPDATE seq SET id = LAST_INSERT_ID(id + 1)")
		p.exec(p.db, "UPDATE t SET v = 5")
		p.exec(p.db, "UPDATE t SET v = 5")
		p.exec(p.db, "DELETE FROM t WHERE v = 5 LIMIT 2")
		p.onConn(func(conn *sql.Conn) {
			p.query(conn, "SELECT LAST_INSERT_ID()")
			p.exec(conn, "INSERT INTO t (v) VALUES (7), (8)")
			p.query(conn, "SELECT LAST_INSERT_ID(), @@last_insert_id = @@identity, ROW_COUNT()")
			p.query(conn, "SELECT v FROM t WHERE id = LAST_INSERT_ID()")
			p.exec(conn, "INSERT INTO t (v) VALUES (?)", 9)
			p.query(conn, "SELECT v FROM t WHERE id = LAST_INSERT_ID()")
			p.exec(conn, "UPDATE seq SET id = LAST_INSERT_ID(id + 1)")
			p.query(conn, "SELECT LAST_INSERT_ID()")
			p.query(conn, "SELECT LAST_INSERT_ID(77)")
			p.query(conn, "SELECT LAST_INSERT_ID()")
			p.exec(conn, "UPDATE t SET v = v + 1")
			p.query(conn, "SELECT ROW_COUNT()")
			p.exec(conn, "INSERT INTO t SELECT NULL, v FROM t")
			p.query(conn, "SELECT ROW_COUNT(), LAST_INSERT_ID() > 0")
		})
		p.inTx(nil, func(tx *sql.Tx) {
			p.exec(tx, "INSERT INTO t (v) VALUES (20)")
			p.query(tx, "SELECT v FROM t WHERE id = LAST_INSERT_ID()")
		})
	}}, mysqlScript{name: "FoundRows", run: func(p *mysqlParity) {
		p.exec(p.db, "CREATE TABLE t (id INT PRIMARY KEY)")
		p.exec(p.db, "INSERT INTO t VALUES (1), (2), (3), (4)")
		p.onConn(func(conn *sql.Conn) {
			p.query(conn, "SELECT SQL_CALC_FOUND_ROWS id FROM t ORDER BY id LIMIT 1")
			p.query(conn, "SELECT FOUND_ROWS()")
			p.query(conn, "SELECT SQL_CALC_FOUND_ROWS id FROM t WHERE id > ? LIMIT 1", 2)
			p.query(conn, "SELECT FOUND_ROWS()")
			p.exec(conn, "SELECT SQL_CALC_FOUND_ROWS id FROM t WHERE id < 3 LIMIT 1")
			p.query(conn, "SELECT FOUND_ROWS(), ROW_COUNT()")
		})
		p.inTx(nil, func(tx *sql.Tx) {
			p.query(tx, "SELECT id FROM t ORDER BY id LIMIT 2")
			p.query(tx, "SELECT FOUND_ROWS()")
		})
	}}, mysqlScript{name: "FoundRowsOfAffected", configure: func(c *mysql.Config) { c.ClientFoundRows = true }, run: func(p *mysqlParity) {
		p.exec(p.db, "CREATE TABLE t (id INT PRIMARY KEY, v INT)")
		p.exec(p.db, "INSERT INTO t VALUES (1, 1), (2, 2)")
		p.exec(p.db, "UPDATE t SET v = 1")
		p.exec(p.db, "UPDATE t SET v = 1")
		p.exec(p.db, "INSERT INTO t VALUES (1, 1) ON DUPLICATE KEY UPDATE v = 1")
	}}, mysqlScript{name: "Variables", run: func(p *mysqlParity) {
		p.exec(p.db, "CREATE TABLE t (id INT, v INT)")
		p.exec(p.db, "INSERT INTO t VALUES (1, 10), (2, 20)")
		p.onConn(func(conn *sql.Conn) {
			p.query(conn, "SELECT @a, @b")
			p.exec(conn, "SET @a = 1, @b := 'x'")
			p.query(conn, "SELECT @a, @b")
			p.query(conn, "SELECT @a := @a + v FROM t ORDER BY id")
			p.exec(conn, "SELECT v INTO @c FROM t WHERE id = 2")
			p.query(conn, "SELECT @a, @c, (SELECT MAX(v) FROM t WHERE v > @a)")
			p.exec(conn, "SET @d = (SELECT COUNT(*) FROM t), @e = ?", 5)
			p.query(conn, "SELECT @d, @e")
			p.exec(conn, "SET @stmt = 'SELECT ? + @d'")
			p.exec(conn, "PREPARE s FROM @stmt")
			p.query(conn, "EXECUTE s USING @e")
			p.exec(conn, "DEALLOCATE PREPARE s")
			p.query(conn, "EXECUTE s USING @e")
			p.exec(conn, "PREPARE w FROM 'INSERT INTO t VALUES (?, ?)'")
			p.exec(conn, "EXECUTE w USING @d, @e")
			p.query(conn, "SELECT * FROM t ORDER BY id, v")
			p.exec(conn, "GET DIAGNOSTICS @n = NUMBER")
			p.query(conn, "SELECT @n")
		})
	}}, mysqlScript{name: "TemporaryTables", run: func(p *mysqlParity) {
		p.exec(p.db, "CREATE TABLE t (id INT)")
		p.exec(p.db, "INSERT INTO t VALUES (1), (2)")
		p.onConn(func(conn *sql.Conn) {
			p.exec(conn, "CREATE TEMPORARY TABLE mine (id INT PRIMARY KEY AUTO_INCREMENT, v INT)")
			p.exec(conn, "INSERT INTO mine (v) SELECT id * 10 FROM t")
			p.query(conn, "SELECT mine.*, t.id FROM mine JOIN t ON t.id = mine.id ORDER BY t.id")
			p.exec(conn, "CREATE TEMPORARY TABLE t SELECT 99 AS id")
			p.query(conn, "SELECT id FROM t")
			p.exec(conn, "DROP TEMPORARY TABLE t")
			p.query(conn, "SELECT id FROM t ORDER BY id")
			p.inTxOn(conn, func(tx *sql.Tx) {
				p.exec(tx, "INSERT INTO mine (v) VALUES (5)")
				p.exec(tx, "CREATE TEMPORARY TABLE other (id INT)")
				p.exec(tx, "INSERT INTO other VALUES (1)")
			})
			p.query(conn, "SELECT * FROM mine, other ORDER BY mine.id")
			p.exec(conn, "ALTER TABLE mine ADD COLUMN w INT")
			p.exec(conn, "TRUNCATE mine")
			p.query(conn, "SELECT * FROM mine")
			p.exec(conn, "DROP TABLE mine")
			p.query(conn, "SELECT * FROM mine")
		})
	}}, mysqlScript{name: "Locks", run: func(p *mysqlParity) {
		p.exec(p.db, "CREATE TABLE t (id INT)")
		lock := "'" + p.database + "'"
		p.onConn(func(conn *sql.Conn) {
			p.query(conn, "SELECT GET_LOCK("+lock+", 1), IS_USED_LOCK("+lock+") = CONNECTION_ID(), IS_FREE_LOCK("+lock+")")
			p.query(conn, "SELECT GET_LOCK(?, 0)", p.database)
			p.onConn(func(other *sql.Conn) {
				p.query(other, "SELECT GET_LOCK("+lock+", 0), IS_FREE_LOCK("+lock+"), RELEASE_LOCK("+lock+")")
			})
			p.query(conn, "SELECT RELEASE_LOCK("+lock+")")
			p.exec(conn, "DO RELEASE_ALL_LOCKS()")
			p.query(conn, "SELECT RELEASE_LOCK("+lock+")")
			p.query(conn, "SELECT IS_USED_LOCK("+lock+")")
			p.onConn(func(other *sql.Conn) {
				p.query(other, "SELECT GET_LOCK("+lock+", 0)")
				p.query(other, "SELECT RELEASE_LOCK("+lock+")")
			})
			p.exec(conn, "LOCK TABLES t WRITE")
			p.exec(conn, "INSERT INTO t VALUES (1)")
			p.query(conn, "SELECT * FROM t")
			p.query(conn, "SELECT * FROM begun")
			p.exec(conn, "UNLOCK TABLES")
			p.query(conn, "SELECT COUNT(*) > 0 OR TRUE FROM begun")
			p.exec(conn, "HANDLER t OPEN")
			p.query(conn, "HANDLER t READ FIRST")
			p.query(conn, "HANDLER t READ NEXT")
			p.exec(conn, "HANDLER t CLOSE")
		})
	}}, mysqlScript{name: "Set", run: func(p *mysqlParity) {
		p.exec(p.db, "CREATE TABLE t (v VARCHAR(10) CHARACTER SET utf8mb4)")
		p.onConn(func(conn *sql.Conn) {
			p.exec(conn, "SET NAMES latin1")
			p.query(conn, "SELECT @@character_set_client, @@collation_connection")
			p.exec(conn, "INSERT INTO t VALUES ('\xe9')")
			p.query(conn, "SELECT v, HEX(v) FROM t")
			p.exec(conn, "SET NAMES utf8mb4")
			p.query(conn, "SELECT v FROM t")
			p.exec(conn, "SET CHARACTER SET utf8mb4")
			p.exec(conn, "SET SESSION sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES', time_zone = '+03:00'")
			p.query(conn, `SELECT "v", 'a\' FROM t`)
			p.query(conn, "SHOW VARIABLES WHERE Variable_name IN ('sql_mode', 'time_zone')")
			p.query(conn, "SELECT FROM_UNIXTIME(0), @@session.time_zone")
			p.exec(conn, "SET @@session.sql_mode = ''")
			p.exec(conn, "SET time_zone = DEFAULT, @x = 1")
			p.exec(conn, "SET lc_time_names = 'de_DE'")
			p.query(conn, "SELECT DATE_FORMAT('2024-02-29', '%W'), @x")
			p.exec(conn, "SET sql_select_limit = 1")
			p.query(conn, "SELECT 1 UNION ALL SELECT 2")
			p.exec(conn, "SET sql_select_limit = DEFAULT, max_sort_length = 1000000000")
			p.query(conn, "SHOW WARNINGS")
			p.exec(conn, "SET GLOBAL missing = 1")
			p.exec(conn, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
			p.inTxOn(conn, func(tx *sql.Tx) { p.query(tx, "SELECT v FROM t") })
			p.exec(conn, "SET innodb_lock_wait_timeout = 1")
			p.query(conn, "SELECT @@innodb_lock_wait_timeout")
		})
	}}, mysqlScript{name: "Autocommit", replica: true, run: func(p *mysqlParity) {
		p.exec(p.db, "CREATE TABLE t (id INT)")
		seen := func() { p.query(p.db, "SELECT id FROM t ORDER BY id") }
		p.onConn(func(conn *sql.Conn) {
			p.exec(conn, "SET autocommit = 0")
			p.query(conn, "SELECT @@autocommit")
			p.exec(conn, "INSERT INTO t VALUES (1)")
			seen()
			p.exec(conn, "COMMIT")
			seen()
			p.exec(conn, "INSERT INTO t VALUES (2)")
			p.exec(conn, "ROLLBACK")
			p.query(conn, "SELECT id FROM t")
			p.exec(conn, "INSERT INTO t VALUES (3)")
			p.exec(conn, "SET autocommit = 1")
			seen()
			p.exec(conn, "INSERT INTO t VALUES (4)")
			p.exec(conn, "SET SESSION autocommit = 0")
			p.exec(conn, "INSERT INTO t VALUES (5)")
			p.exec(conn, "SET @@session.autocommit = ON")
			seen()
			p.exec(conn, "SET @@autocommit = OFF")
			p.exec(conn, "INSERT INTO t VALUES (6)")
			p.inTxOn(conn, func(tx *sql.Tx) { p.exec(tx, "INSERT INTO t VALUES (7)") })
			seen()
			p.exec(conn, "INSERT INTO t VALUES (8)")
			p.exec(conn, "SET autocommit = 1")
			p.query(conn, "SELECT @@autocommit")
		})
		seen()
	}}, mysqlScript{name: "Use", replica: true, run: func(p *mysqlParity) {
		p.exec(p.db, "CREATE TABLE t (id INT)")
		p.exec(p.db, "CREATE DATABASE other_"+p.database)
		p.exec(p.db, "CREATE TABLE other_"+p.database+".t (id INT)")
		p.exec(p.db, "INSERT INTO other_"+p.database+".t VALUES (7)")
		p.query(p.db, "SELECT DATABASE(), COUNT(*) FROM t")
		p.onConn(func(conn *sql.Conn) {
			p.exec(conn, "USE other_"+p.database)
			p.query(conn, "SELECT DATABASE(), id FROM t")
			p.query(conn, "SELECT id FROM t WHERE id = ?", 7)
			p.exec(conn, "INSERT INTO t VALUES (?)", 8)
			p.query(conn, "SELECT COUNT(*) FROM "+p.database+".t")
			p.exec(conn, "USE missing")
			p.query(conn, "SELECT SCHEMA(), COUNT(*) FROM t")
			p.exec(conn, "USE "+p.database)
			p.query(conn, "SELECT DATABASE(), COUNT(*) FROM t")
		})
		p.exec(p.db, "DROP DATABASE other_"+p.database)
	}}, mysqlScript{name: "Warnings", run: func(p *mysqlParity) {
		p.exec(p.db, "CREATE TABLE t (id TINYINT)")
		p.onConn(func(conn *sql.Conn) {
			p.exec(conn, "INSERT IGNORE INTO t VALUES (1000), ('x')")
			p.query(conn, "SHOW WARNINGS")
			p.query(conn, "SHOW COUNT(*) WARNINGS")
			p.query(conn, "SELECT @@warning_count, @@error_count")
			p.exec(conn, "INSERT INTO t VALUES (1000)")
			p.query(conn, "SHOW ERRORS")
			p.exec(conn, "DROP TABLE IF EXISTS missing")
			p.query(conn, "SHOW WARNINGS LIMIT 1")
		})
	}})
}

// TestParityMySQLStateOfReads: what a read leaves behind is looked for where it ran, by whoever asks next on the same connection.
func TestParityMySQLStateOfReads(t *testing.T) {
	compareMySQLParity(t, mysqlScript{name: "Reads", replica: true, run: func(p *mysqlParity) {
		p.exec(p.db, "CREATE TABLE t (id INT PRIMARY KEY)")
		p.exec(p.db, "INSERT INTO t VALUES (1), (2), (3), (4)")
		for _, after := range []string{
			"SELECT FOUND_ROWS()", "SELECT ROW_COUNT()", "SHOW WARNINGS", "SHOW COUNT(*) WARNINGS", "SELECT @@warning_count",
		} {
			p.onConn(func(conn *sql.Conn) {
				p.query(conn, "SELECT id, id / 0, CAST('x' AS SIGNED) FROM t ORDER BY id LIMIT 2")
				p.query(conn, after)
			})
		}
	}})
}

// TestParityMySQLTimes: the servers' clocks and the time zone of a session are the same wherever a read runs.
func TestParityMySQLTimes(t *testing.T) {
	compareMySQLParity(t, mysqlScript{name: "Now", replica: true, configure: func(c *mysql.Config) {
		c.ParseTime = true
		c.Params = map[string]string{"time_zone": "'-08:00'"}
	}, run: func(p *mysqlParity) {
		for _, query := range []string{"SELECT NOW(6)", "SELECT UTC_TIMESTAMP(6)", "SELECT CURRENT_TIMESTAMP", "SELECT SYSDATE(6)"} {
			var now time.Time
			p.must(p.db.QueryRowContext(p.ctx, query).Scan(&now))
			p.note("%s: %s %d hours", query, now.Location(), int(time.Until(now).Round(time.Hour).Hours()))
		}
		p.query(p.db, "SELECT FROM_UNIXTIME(0), TIMESTAMPDIFF(HOUR, UTC_TIMESTAMP(), NOW()), UNIX_TIMESTAMP('1970-01-01 00:00:00')")
	}})
}
