package readroute_test

import (
	"fmt"

	"github.com/readroute/readroute"
)

// How far a replica is behind, in bytes of log, from the positions that both servers report. PostgreSQL 19 pads with
// zeros where older versions do not; it makes no difference.
func ExampleParseLSN() {
	primary, err := readroute.ParseLSN("16/A000000")
	if err != nil {
		fmt.Println(err)
		return
	}
	replica, err := readroute.ParseLSN("16/09FFF000")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(replica, "is behind:", replica.Compare(primary) < 0)
	fmt.Println(primary.Sub(replica), "bytes to go")

	_, err = readroute.ParseLSN("16-B374D848")
	fmt.Println(err)

	// Output:
	// 16/9FFF000 is behind: true
	// 4096 bytes to go
	// readroute: malformed LSN: "16-B374D848", want two hexadecimal numbers of at most 8 digits, as in 0/401F780
}
