package readroute_test

import (
	"fmt"

	"github.com/readroute/readroute"
)

// What a replica has not executed yet, from the gtid_executed of both servers.
func ExampleGTIDSet_Difference() {
	primary, err := readroute.ParseGTIDSet("3e11fa47-71ca-11e1-9e33-c80aa9429562:1-120,\n246e88bd-0288-11e8-9cee-230cd2fc765b:1-59")
	if err != nil {
		fmt.Println(err)
		return
	}
	replica, err := readroute.ParseGTIDSet("3E11FA47-71CA-11E1-9E33-C80AA9429562:1-100:105, 246e88bd-0288-11e8-9cee-230cd2fc765b:1-59")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("all there:", replica.Contains(primary))
	fmt.Println("missing:", primary.Difference(replica))

	// Output:
	// all there: false
	// missing: 3e11fa47-71ca-11e1-9e33-c80aa9429562:101-104:106-120
}

// Whether a new primary has what a session has written through the old one. MariaDB's own order says yes, since 106 comes
// after 105; the state of the binary log says what became of the write.
func ExampleMariaDBGTID_Contains() {
	written, err := readroute.ParseMariaDBGTID("0-1-105")
	if err != nil {
		fmt.Println(err)
		return
	}
	state, err := readroute.ParseMariaDBGTID("0-1-104,0-2-106") // @@gtid_binlog_state of server 2
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("the write is there:", state.Contains(written))
	fmt.Println("lost:", written.Difference(state))

	// Output:
	// the write is there: false
	// lost: 0-1-105
}
