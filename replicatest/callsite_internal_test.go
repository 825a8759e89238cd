package replicatest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFilesOfOtherModules(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]bool{
		"/usr/lib/go/pkg/mod/github.com/jmoiron/sqlx@v1.4.0/sqlx.go": true,
		"/cache/mod/gorm.io/gorm@v1.25.0/callbacks/query.go":         true,
		"github.com/jmoiron/sqlx@v1.4.0/sqlx.go":                     true, // -trimpath
		"/src/app/vendor/github.com/jmoiron/sqlx/sqlx.go":            true,
		"/src/app/store/user.go":                                     false,
		"/src/me@vault/app/user.go":                                  false,
		"example.com/app/user.go":                                    false,
	} {
		require.Equal(t, want, elsewhere(file), file)
	}
}
