package main

import (
	"fmt"
	"io"
	"net/http"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"github.com/readroute/readroute"
)

func newEcho(codec *readroute.Codec, n *notes) http.Handler {
	e := echo.New()
	e.Logger.SetOutput(io.Discard)
	e.Use(echo.WrapMiddleware(codec.Middleware)) // before those that answer for a handler
	e.Use(middleware.Recover())
	e.POST("/notes", func(c echo.Context) error {
		id, err := n.save(c.Request().Context(), c.FormValue("text"))
		if err != nil {
			return err
		}
		return c.Redirect(http.StatusSeeOther, fmt.Sprintf("/notes/%d", id))
	})
	e.GET("/notes/:id", func(c echo.Context) error {
		text, err := n.show(c.Request().Context(), c.Param("id"))
		if err != nil {
			return echo.NewHTTPError(status(err), err.Error())
		}
		return c.String(http.StatusOK, text)
	})
	e.POST("/stream", func(c echo.Context) error {
		id, err := n.save(c.Request().Context(), c.FormValue("text"))
		if err != nil {
			return err
		}
		for _, part := range []string{"/notes/", fmt.Sprint(id)} {
			_, _ = io.WriteString(c.Response(), part)
			c.Response().Flush()
		}
		return nil
	})
	e.POST("/panic", func(c echo.Context) error {
		id, _ := n.save(c.Request().Context(), "saved before the panic")
		panic(id)
	})
	return e
}
