package mysql_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/core"
	"github.com/readroute/readroute/internal/dbtest"
	"github.com/readroute/readroute/internal/mysql"
)

const (
	uuidA = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
	uuidB = "246e88bd-0288-11e8-9cee-230cd2fc765b"
	uuidC = "ffffffff-71ca-11e1-9e33-c80aa9429562"
)

func mysqlPosition(t *testing.T, text string) core.Position {
	t.Helper()
	set, err := core.ParseGTIDSet(text)
	require.NoError(t, err)
	return core.MySQLPosition(set, 7)
}

func mariadbPosition(t *testing.T, text string) core.Position {
	t.Helper()
	list, err := core.ParseMariaDBGTID(text)
	require.NoError(t, err)
	return core.MariaDBPosition(list, 7)
}

func TestNeed(t *testing.T) {
	for _, c := range []struct{ name, base, full, own, want string }{
		{"a write", uuidA + ":1-5", uuidA + ":1-6", uuidA + ":1-6", uuidA + ":1-6"},
		{"a write that changes nothing", uuidA + ":1-5", uuidA + ":1-5", uuidA + ":1-5", uuidA + ":1-5"},
		{"what stands still stays out", uuidA + ":1-5," + uuidB + ":1-9", uuidA + ":1-6," + uuidB + ":1-9", uuidA + ":1-6", uuidA + ":1-6"},
		{"two that move", uuidA + ":1-5," + uuidB + ":1-9", uuidA + ":1-6," + uuidB + ":1-10", uuidA + ":1-6", uuidB + ":1-10," + uuidA + ":1-6"},
		{"another moves, its own does not", uuidA + ":1-5," + uuidB + ":1-9", uuidA + ":1-5," + uuidB + ":1-10", uuidA + ":1-5", uuidB + ":1-10," + uuidA + ":1-5"},
		{"it has written nothing, and nothing moves", uuidA + ":1-5," + uuidB + ":1-9", uuidA + ":1-5," + uuidB + ":1-9", "", uuidB + ":1-9," + uuidA + ":1-5"},
		{"a tag of its own", uuidA + ":1-5:x:1", uuidA + ":1-5:x:1-2", uuidA + ":1-5:x:1-2", uuidA + ":1-5:x:1-2"},
		{"nothing known before", "", uuidA + ":1-5," + uuidB + ":1-9", uuidA + ":1-5", uuidB + ":1-9," + uuidA + ":1-5"},
	} {
		t.Run("MySQL, "+c.name, func(t *testing.T) {
			base := core.Sample{Position: mysqlPosition(t, c.base)}
			need := mysql.Engine{}.Need(base, core.Sample{Position: mysqlPosition(t, c.full), Own: mysqlPosition(t, c.own)})
			require.Equal(t, c.want, need.String())
			require.EqualValues(t, 7, need.LSN)
		})
	}
	for _, c := range []struct{ name, base, full, own, want string }{
		{"a write", "0-1-5", "0-1-6", "0-1-6", "0-1-6"},
		{"a write that changes nothing", "0-1-5,1-2-3", "0-1-5,1-2-3", "0-1-5", "0-1-5"},
		{"another domain moves", "0-1-5,1-2-3", "0-1-5,1-2-4", "0-1-5", "0-1-5,1-2-4"},
		{"another server in its domain", "0-1-5", "0-2-6", "0-2-6", "0-2-6"},
		{"it has written nothing, and nothing moves", "0-1-5", "0-1-5", "", "0-1-5"},
	} {
		t.Run("MariaDB, "+c.name, func(t *testing.T) {
			base := core.Sample{Position: mariadbPosition(t, c.base)}
			need := mysql.Engine{MariaDB: true}.Need(base, core.Sample{Position: mariadbPosition(t, c.full), Own: mariadbPosition(t, c.own)})
			require.Equal(t, c.want, need.String())
		})
	}
	require.True(t, mysql.Engine{}.Need(core.Sample{}, core.Sample{}).IsZero())
}

// A thousand writes of one session are one small token, and a write that changes nothing has one.
func TestNeedOfManyWrites(t *testing.T) {
	onBoth(t, func(t *testing.T, c *dbtest.MySQLCluster, e mysql.Engine) {
		l := link(t, c.Primary().AppDSN())
		ask := func() core.Sample {
			s, err := e.Ask(testContext(t), l)
			require.NoError(t, err)
			return s
		}
		base := ask()
		statements := make([]string, 1000)
		for i := range statements {
			statements[i] = "INSERT INTO app.t (v) VALUES (3)"
		}
		exec(t, c.Primary(), statements...)
		after := ask()
		need := e.Need(base, after)
		t.Log(need)
		require.Less(t, len(need.String()), 200)
		require.Equal(t, core.NotCovered, need.CoveredBy(base.Position))
		require.Equal(t, core.Covered, need.CoveredBy(after.Position))
		require.Equal(t, after.Own.String(), need.String())

		exec(t, c.Primary(), "UPDATE app.t SET v = v WHERE id = 1", "INSERT IGNORE INTO app.t (id, v) VALUES (1, 1)")
		same := ask()
		require.Equal(t, after.Position, same.Position)
		require.Equal(t, need.String(), e.Need(after, same).String())
	})
}

// K5-25: what the driver hides of the OK packet is read by a query, however long it is.
func TestK5_25_LongSet(t *testing.T) {
	t.Parallel()
	c := dbtest.StartMySQLT(t, dbtest.MySQLOptions{})
	e, n := mysql.Engine{}, c.Primary()
	before := look(t, e, n.AppDSN())
	var foreign []string
	for i := range 1000 {
		foreign = append(foreign, fmt.Sprintf("%08x-0000-0000-0000-000000000000:1-5:7:9-%d", i+1, 10+i))
	}
	exec(t, n, "SET GLOBAL gtid_purged = '+"+strings.Join(foreign, ",")+"'", "USE app; CREATE TABLE t (id INT)")
	after := look(t, e, n.AppDSN())
	want := before.Position.LSN + 1
	for i := range 1000 {
		want += core.LSN(5 + 1 + 2 + i)
	}
	require.Equal(t, want, after.Position.LSN)
	require.Greater(t, len(after.Position.String()), 250)
	// The base has them all: what they are does not get into tokens.
	require.NoError(t, n.Exec(testContext(t), "INSERT INTO app.t VALUES (1)"))
	need := e.Need(after.Sample, look(t, e, n.AppDSN()).Sample)
	require.Less(t, len(need.String()), 60)
}

// K5-24: a server without positions says so, and has none.
func TestK5_24_NoPosition(t *testing.T) {
	t.Parallel()
	t.Run("MySQL", func(t *testing.T) {
		c := dbtest.StartMySQLT(t, dbtest.MySQLOptions{Settings: map[string]string{"gtid-mode": "OFF", "enforce-gtid-consistency": "OFF"}})
		r := look(t, mysql.Engine{}, c.Primary().AppDSN())
		require.Equal(t, core.RolePrimary, r.Role)
		require.True(t, r.Position.IsZero())
		require.True(t, r.Own.IsZero())
		require.True(t, mysql.Engine{}.Need(core.Sample{}, r.Sample).IsZero())
		require.Contains(t, r.Missing[0], "gtid_mode is OFF")
		// On the way to ON not all transactions have one.
		exec(t, c.Primary(), "SET GLOBAL enforce_gtid_consistency = ON", "SET GLOBAL gtid_mode = OFF_PERMISSIVE", "SET GLOBAL gtid_mode = ON_PERMISSIVE")
		r = look(t, mysql.Engine{}, c.Primary().AppDSN())
		require.True(t, r.Position.IsZero())
		exec(t, c.Primary(), "SET GLOBAL gtid_mode = ON", "CREATE TABLE app.t (id INT)")
		require.False(t, look(t, mysql.Engine{}, c.Primary().AppDSN()).Position.IsZero())
	})
	for _, c := range []struct {
		name string
		e    mysql.Engine
		row  []string
		want string
	}{
		{"MySQL that does not log", mysql.Engine{}, []string{uuidA, "5", "0", "0", "ON", "", uuidB + ":1-5", "1700000000", ""}, "log_bin is off"},
		{"MariaDB that does not log", mysql.Engine{MariaDB: true}, []string{"h:3306:1", "5", "0", "0", "0", "0-1-5", "0-1-5", "", "", "1", "1700000000", ""}, "log_bin is off"},
		{"a MariaDB replica that has replicated nothing", mysql.Engine{MariaDB: true}, []string{"h:3306:1", "5", "1", "1", "0", "", "", "", "", "1", "1700000000", ""}, "gtid_slave_pos is empty"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := c.e.ParseProbe(c.row)
			require.NoError(t, err)
			require.True(t, s.Position.IsZero())
			r := mysql.ReportOf(t, c.e, c.row)
			require.Contains(t, strings.Join(r.Missing, ""), c.want)
		})
	}
	t.Run("a MySQL replica that does not log has a position", func(t *testing.T) {
		s, err := mysql.Engine{}.ParseProbe([]string{uuidA, "5", "1", "1", "ON", "", uuidB + ":1-5", "1700000000", ""})
		require.NoError(t, err)
		require.EqualValues(t, 5, s.Position.LSN)
	})
}
