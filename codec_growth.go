package readroute

// growth changes when a session comes to need more.
type growth uint64

func growthOf(s *Session) growth { return growth(s.core.Grown()) }
