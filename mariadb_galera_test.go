package readroute_test

import (
	"fmt"
	"net"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/internal/dbtest"
)

// galeraLibraries are where packages put Galera's library. READROUTE_GALERA names another.
var galeraLibraries = []string{
	os.Getenv("READROUTE_GALERA"), "/usr/lib/galera/libgalera_smm.so", "/usr/lib64/galera-4/libgalera_smm.so", "/usr/lib64/galera/libgalera_smm.so",
}

// TestMariaDBGaleraIsRefused: a node of a Galera cluster says what it is in a sentence, and serves nothing.
func TestMariaDBGaleraIsRefused(t *testing.T) {
	library := ""
	for _, path := range galeraLibraries {
		if _, err := os.Stat(path); err == nil && path != "" {
			library = path
			break
		}
	}
	if library == "" {
		t.Skip("GALERA NOT TESTED: its library (package galera-4) is not installed; internal/mysql tests what such a server answers")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := l.Addr().String()
	require.NoError(t, l.Close())
	c := dbtest.StartMariaDBT(t, dbtest.MySQLOptions{Settings: map[string]string{
		"wsrep-on": "ON", "wsrep-provider": library, "wsrep-cluster-address": "gcomm://", "wsrep-node-address": "127.0.0.1",
		"wsrep-provider-options": fmt.Sprintf("base_host=127.0.0.1;gmcast.listen_addr=tcp://%s", address),
		"gtid-strict-mode":       "OFF", "innodb-autoinc-lock-mode": "2",
	}})
	eventually(t, "it is a cluster of one", func() bool {
		return ask(t, c.Primary(), "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'wsrep_ready'") == "ON"
	})
	db, err := readroute.Open(readroute.Config{Primary: readroute.Node{Name: "a", Connector: readroute.MySQL(c.Primary().DSN())}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	eventually(t, "it has been asked", func() bool { return status(t, db, "a").Err != nil })
	s := status(t, db, "a")
	require.False(t, s.Healthy)
	require.ErrorContains(t, s.Err, "it is a node of a Galera cluster")
	require.NotContains(t, s.Err.Error(), "\n")
	_, err = db.ExecContext(sessionContext(t), "CREATE TABLE t (id INT)")
	require.ErrorContains(t, err, "it is a node of a Galera cluster")
}
