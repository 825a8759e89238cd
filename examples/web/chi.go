package main

import (
	"fmt"
	"io"
	"net/http"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/readroute/readroute"
)

func newChi(codec *readroute.Codec, n *notes) http.Handler {
	r := chi.NewRouter()
	// Outside of what answers for a handler, or compresses.
	r.Use(codec.Middleware, middleware.Recoverer, middleware.Compress(5))
	r.Post("/notes", func(w http.ResponseWriter, r *http.Request) {
		id, err := n.save(r.Context(), r.FormValue("text"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		http.Redirect(w, r, fmt.Sprintf("/notes/%d", id), http.StatusSeeOther)
	})
	r.Get("/notes/{id}", func(w http.ResponseWriter, r *http.Request) {
		text, err := n.show(r.Context(), chi.URLParam(r, "id"))
		if err != nil {
			http.Error(w, err.Error(), status(err))
			return
		}
		w.Header().Set("Content-Type", "text/plain")
		_, _ = io.WriteString(w, text)
	})
	r.Post("/stream", func(w http.ResponseWriter, r *http.Request) {
		id, err := n.save(r.Context(), r.FormValue("text"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		for _, part := range []string{"/notes/", fmt.Sprint(id)} {
			_, _ = io.WriteString(w, part)
			w.(http.Flusher).Flush()
		}
	})
	r.Post("/panic", func(_ http.ResponseWriter, r *http.Request) {
		id, _ := n.save(r.Context(), "saved before the panic")
		panic(id)
	})
	return r
}
