package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/readroute/readroute"
)

// sessions is what there is without the middleware: each request sees its own writes, and knows of no other request.
func sessions(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(readroute.WithSession(r.Context())))
	})
}

// service keeps a draft for each tab of a user. It knows nothing of tokens.
type service struct {
	db *readroute.DB
}

// ServeHTTP saves the draft of one tab on POST and redirects; it shows the revisions of all tabs on GET.
func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	user := r.FormValue("user")
	if r.Method == http.MethodPost {
		_, err := s.db.ExecContext(r.Context(), "UPDATE draft SET revision = $1 WHERE user_id = $2 AND tab = $3",
			r.FormValue("revision"), user, r.FormValue("tab"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		http.Redirect(w, r, "/?user="+user, http.StatusSeeOther)
		return
	}
	var d readroute.Decision
	revisions, err := s.revisions(context.WithValue(r.Context(), decisionKey{}, &d), user)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set(readFrom, fmt.Sprintf("%s %s", d.Node, d.Reason))
	_ = json.NewEncoder(w).Encode(revisions)
}

func (s *service) revisions(ctx context.Context, user string) (revisions []int64, err error) {
	rows, err := s.db.QueryContext(ctx, "SELECT revision FROM draft WHERE user_id = $1 ORDER BY tab", user)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var revision int64
		if err := rows.Scan(&revision); err != nil {
			return nil, err
		}
		revisions = append(revisions, revision)
	}
	return revisions, rows.Err()
}

// readFrom is the header that tells the browsers which node a page was read from, and why.
const readFrom = "Read-From"

// decisionKey is where in a context a *readroute.Decision waits for note.
type decisionKey struct{}

func note(ctx context.Context, d readroute.Decision) {
	if to, ok := ctx.Value(decisionKey{}).(*readroute.Decision); ok {
		*to = d
	}
}
