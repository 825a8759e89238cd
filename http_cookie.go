package readroute

import (
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

// noCookie is the CodecConfig.Cookie that means none.
const noCookie = "-"

// setCookie hands the client a token in a cookie of its own. Names are never used again: a response that deletes a cookie must
// not delete another one that a later response has set.
func (c *Codec) setCookie(h http.Header, text string) {
	c.addCookie(h, c.config.Cookie+"-"+strconv.FormatUint(rand.Uint64(), 36), text)
}

// addCookie sets the cookie of that name, or deletes it when the text is "".
func (c *Codec) addCookie(h http.Header, name, text string) {
	age := c.config.MaxAge
	if age < 0 {
		age = DefaultMaxTokenAge
	}
	cookie := &http.Cookie{
		Name: name, Path: "/", Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode,
		MaxAge: int((age + time.Second - 1) / time.Second),
	}
	if c.config.EditCookie != nil {
		c.config.EditCookie(cookie)
	}
	cookie.Name, cookie.Value = name, text
	if text == "" {
		cookie.MaxAge = -1
	}
	if line := cookie.String(); line != "" {
		h.Add("Set-Cookie", line)
	}
}
