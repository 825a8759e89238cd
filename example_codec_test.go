package readroute_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/readroute/readroute"
)

// exampleSecret stands for what every process of a service gets from its configuration: 32 random bytes.
var exampleSecret = []byte("0123456789abcdef0123456789abcdef")

func exampleCodec() *readroute.Codec {
	codec, err := readroute.NewCodec(readroute.CodecConfig{Keys: []readroute.Key{{ID: "1", Secret: exampleSecret}}})
	if err != nil {
		panic(err)
	}
	return codec
}

// A signed text that another process takes in, and one that nobody has signed. To change keys, add the new one at the end
// everywhere, then move it to the front everywhere, then remove the old one.
func ExampleNewCodec() {
	codec, err := readroute.NewCodec(readroute.CodecConfig{Keys: []readroute.Key{{ID: "1", Secret: exampleSecret}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	text := codec.Encode(readroute.PrimaryFor(time.Minute))
	_, err = codec.Decode(text)
	fmt.Println(err)

	other, err := readroute.NewCodec(readroute.CodecConfig{Keys: []readroute.Key{{ID: "1", Secret: []byte("a guess of sixteen bytes or more")}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = other.Decode(text)
	fmt.Println(errors.Is(err, readroute.ErrTokenForged), errors.Is(err, readroute.ErrBadToken))
	fmt.Println(err)

	// Output:
	// <nil>
	// true true
	// readroute: bad token: not signed with a key that is known here
}
