package simulation

import (
	"time"

	"github.com/readroute/readroute/internal/core"
)

// seedChance makes the library's own chance that of the scenario. It depends on nothing but the moment: of what happens at
// one moment nobody knows the order. One scenario runs at a time.
func seedChance(seed uint64) {
	seed = mix(seed)
	core.Chance = func() uint64 { return mix(seed ^ uint64(time.Now().UnixNano())) }
}
