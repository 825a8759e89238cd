package mysql_test

import (
	"context"
	"testing"

	driver "github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/mysql"
)

// TestK4_19_StatementNames: the status of a replica is asked for in the words that the server knows, old or new, and read from
// columns of either name.
func TestK4_19_StatementNames(t *testing.T) {
	for name, c := range map[string]struct {
		e       mysql.Engine
		knows   string
		columns []string
		asked   []string
	}{
		"MySQL 8.4":    {mysql.Engine{}, "SHOW REPLICA STATUS", []string{"Replica_IO_Running", "Replica_SQL_Running", "Seconds_Behind_Source"}, []string{"SHOW REPLICA STATUS"}},
		"MySQL 8.0.21": {mysql.Engine{}, "SHOW SLAVE STATUS", []string{"Slave_IO_Running", "Slave_SQL_Running", "Seconds_Behind_Master"}, []string{"SHOW REPLICA STATUS", "SHOW SLAVE STATUS"}},
		"MariaDB":      {mysql.Engine{MariaDB: true}, "SHOW ALL SLAVES STATUS", []string{"Slave_IO_Running", "Slave_SQL_Running", "Seconds_Behind_Master"}, []string{"SHOW ALL SLAVES STATUS"}},
	} {
		t.Run(name, func(t *testing.T) {
			q := &speaks{knows: c.knows, columns: c.columns}
			active, feeding, lag, err := mysql.AskStatus(t.Context(), c.e, q)
			require.NoError(t, err)
			require.True(t, active && feeding)
			require.Equal(t, 7.0, lag.Seconds())
			require.Equal(t, c.asked, q.asked)
		})
	}
}

// speaks is a server that knows one name of the statement.
type speaks struct {
	knows   string
	columns []string
	asked   []string
}

func (s *speaks) Query(_ context.Context, query string) ([]string, [][]string, error) {
	s.asked = append(s.asked, query)
	if query != s.knows {
		return nil, nil, &driver.MySQLError{Number: 1064, Message: "You have an error in your SQL syntax"}
	}
	return s.columns, [][]string{{"Yes", "Yes", "7"}}, nil
}
