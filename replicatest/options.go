package replicatest

import "fmt"

// DefaultReplicas is how many replicas a cluster has.
const DefaultReplicas = 2

// Options say what cluster to make. The zero value is a primary with two replicas, without tables.
type Options struct {
	// Replicas is how many replicas there are beside the primary. Negative means none.
	// Defaults to 2.
	Replicas int

	// Schema are statements that the primary runs first. The replicas have what they make when New returns.
	// Defaults to none.
	Schema []string
}

// Count returns the number of replicas that o asks for.
func (o Options) Count() int {
	switch {
	case o.Replicas < 0:
		return 0
	case o.Replicas == 0:
		return DefaultReplicas
	}
	return o.Replicas
}

func (o Options) check() error {
	if n := o.Count(); n > 16 {
		return fmt.Errorf("replicatest: %d replicas, at most 16 are possible", n)
	}
	return nil
}
