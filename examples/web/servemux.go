package main

import (
	"fmt"
	"io"
	"net/http"

	"github.com/readroute/readroute"
)

func newServeMux(codec *readroute.Codec, n *notes) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /notes", func(w http.ResponseWriter, r *http.Request) {
		id, err := n.save(r.Context(), r.FormValue("text"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		http.Redirect(w, r, fmt.Sprintf("/notes/%d", id), http.StatusSeeOther)
	})
	mux.HandleFunc("GET /notes/{id}", func(w http.ResponseWriter, r *http.Request) {
		text, err := n.show(r.Context(), r.PathValue("id"))
		if err != nil {
			http.Error(w, err.Error(), status(err))
			return
		}
		_, _ = io.WriteString(w, text)
	})
	mux.HandleFunc("POST /stream", func(w http.ResponseWriter, r *http.Request) {
		id, err := n.save(r.Context(), r.FormValue("text"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		for _, part := range []string{"/notes/", fmt.Sprint(id)} {
			_, _ = io.WriteString(w, part)
			_ = http.NewResponseController(w).Flush()
		}
	})
	return codec.Middleware(mux)
}
