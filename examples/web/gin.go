package main

import (
	"fmt"
	"io"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/readroute/readroute"
)

// newGin gives gin's engine to the middleware, as any other handler. Handlers take the request's own context: statements run
// with a *gin.Context belong to no session.
func newGin(codec *readroute.Codec, n *notes) http.Handler {
	gin.SetMode(gin.ReleaseMode)
	engine := gin.New()
	engine.Use(gin.RecoveryWithWriter(io.Discard))
	engine.POST("/notes", func(c *gin.Context) {
		id, err := n.save(c.Request.Context(), c.PostForm("text"))
		if err != nil {
			c.String(http.StatusInternalServerError, err.Error())
			return
		}
		c.Redirect(http.StatusSeeOther, fmt.Sprintf("/notes/%d", id))
	})
	engine.GET("/notes/:id", func(c *gin.Context) {
		text, err := n.show(c.Request.Context(), c.Param("id"))
		if err != nil {
			c.String(status(err), err.Error())
			return
		}
		c.String(http.StatusOK, text)
	})
	engine.POST("/stream", func(c *gin.Context) {
		id, err := n.save(c.Request.Context(), c.PostForm("text"))
		if err != nil {
			c.String(http.StatusInternalServerError, err.Error())
			return
		}
		parts := []string{"/notes/", fmt.Sprint(id)}
		c.Stream(func(w io.Writer) bool {
			_, _ = io.WriteString(w, parts[0])
			parts = parts[1:]
			return len(parts) > 0
		})
	})
	engine.POST("/panic", func(c *gin.Context) {
		id, _ := n.save(c.Request.Context(), "saved before the panic")
		panic(id)
	})
	return codec.Middleware(engine)
}
