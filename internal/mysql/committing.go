package mysql

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/readroute/readroute/internal/core"
	"github.com/readroute/readroute/internal/monitor"
)

// Committing implements monitor.Engine: a transaction of MySQL owns its GTID from before it is in the log until it is seen.
// MariaDB does not tell.
func (e Engine) Committing(ctx context.Context, link monitor.Link) ([]string, error) {
	if e.MariaDB {
		return nil, nil
	}
	row, err := link.QueryRow(ctx, "SELECT @@GLOBAL.gtid_owned")
	if err != nil || len(row) != 1 || row[0] == "" {
		return nil, err
	}
	owned, err := core.ParseGTIDSet(withoutOwners(row[0]))
	if err != nil {
		return nil, fmt.Errorf("read what is being committed: %w", err)
	}
	return singles(owned), nil
}

// singles are the transactions of a small set, each in its own words.
func singles(set core.GTIDSet) []string {
	var list []string
	for _, stream := range strings.Split(set.String(), ",") {
		name, numbers, _ := strings.Cut(stream, ":")
		for _, n := range strings.Split(numbers, ":") {
			low, high, pair := strings.Cut(n, "-")
			first, err := strconv.ParseUint(low, 10, 64)
			if last, err2 := strconv.ParseUint(high, 10, 64); err != nil || !pair || err2 != nil {
				list = append(list, name+":"+n)
			} else {
				for ; first <= last; first++ {
					list = append(list, fmt.Sprintf("%s:%d", name, first))
				}
			}
		}
	}
	return list
}
