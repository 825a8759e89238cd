package sqlclass_test

type mariadb struct{}

func (mariadb) close() error { return nil }

var mariadbServer mariadb
