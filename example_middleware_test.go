package readroute_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"

	"github.com/readroute/readroute"
)

// A form is saved, and the browser is sent to the page that shows it. Every request has a session; the cookie that the first
// response sets makes the second one's need what was saved. The middleware needs no pool, and one serves all of them.
func ExampleCodec_Middleware() {
	db := exampleDB("form", "id int PRIMARY KEY, name text")
	defer db.Close()
	mux := http.NewServeMux()
	mux.HandleFunc("POST /form", func(w http.ResponseWriter, r *http.Request) {
		if _, err := db.ExecContext(r.Context(), "INSERT INTO form VALUES (1, $1)", r.FormValue("name")); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		http.Redirect(w, r, "/form", http.StatusSeeOther)
	})
	mux.HandleFunc("GET /form", func(w http.ResponseWriter, r *http.Request) {
		var name string
		if err := db.QueryRowContext(r.Context(), "SELECT name FROM form WHERE id = 1").Scan(&name); err != nil {
			http.Error(w, err.Error(), http.StatusNotFound)
			return
		}
		fmt.Fprintln(w, "Hello,", name)
	})
	service := httptest.NewTLSServer(exampleCodec().Middleware(mux))
	defer service.Close()

	browser := service.Client()
	browser.Jar, _ = cookiejar.New(nil)
	response, err := browser.Post(service.URL+"/form?name=Ada", "", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer response.Body.Close()
	page, err := io.ReadAll(response.Body)
	fmt.Printf("%d %s%v\n", response.StatusCode, page, err)

	// Output:
	// 200 Hello, Ada
	// <nil>
}

// One service asks another one to write, and then reads: its session has learned from the answer what was written.
func ExampleCodec_Transport() {
	db := exampleDB("booking", "id int PRIMARY KEY")
	defer db.Close()
	codec := exampleCodec()
	other := httptest.NewServer(codec.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := db.ExecContext(r.Context(), "INSERT INTO booking VALUES (7)"); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})))
	defer other.Close()

	client := &http.Client{Transport: codec.Transport(nil)}
	handler := func(w http.ResponseWriter, r *http.Request) {
		ask, err := http.NewRequestWithContext(r.Context(), http.MethodPost, other.URL, nil)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		answer, err := client.Do(ask)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer answer.Body.Close()
		var id int
		err = db.QueryRowContext(r.Context(), "SELECT id FROM booking").Scan(&id)
		fmt.Fprintln(w, id, err)
	}
	response := httptest.NewRecorder()
	codec.Middleware(http.HandlerFunc(handler)).ServeHTTP(response, httptest.NewRequest(http.MethodGet, "/", nil))
	fmt.Print(response.Body)

	// Output: 7 <nil>
}

// kafkaHeaders makes a Carrier of message headers that are a list of pairs.
type kafkaHeaders struct{ list *[]kafkaHeader }

type kafkaHeader struct {
	Key   string
	Value []byte
}

func (h kafkaHeaders) Get(key string) string {
	for _, header := range *h.list {
		if header.Key == key {
			return string(header.Value)
		}
	}
	return ""
}

func (h kafkaHeaders) Set(key, value string) {
	for i := range *h.list {
		if (*h.list)[i].Key == key {
			(*h.list)[i].Value = []byte(value)
			return
		}
	}
	*h.list = append(*h.list, kafkaHeader{key, []byte(value)})
}

// A message says that something was written; whoever consumes it reads it. What holds the headers needs a Get and a Set.
func ExampleCodec_Inject() {
	db := exampleDB("shipment", "id int PRIMARY KEY")
	defer db.Close()
	codec := exampleCodec()

	ctx := readroute.WithSession(context.Background())
	if _, err := db.ExecContext(ctx, "INSERT INTO shipment VALUES (3)"); err != nil {
		fmt.Println(err)
		return
	}
	var message struct{ Headers []kafkaHeader }
	codec.Inject(ctx, kafkaHeaders{&message.Headers})

	// In the consumer:
	ctx = codec.Extract(context.Background(), kafkaHeaders{&message.Headers})
	var id int
	err := db.QueryRowContext(ctx, "SELECT id FROM shipment").Scan(&id)
	fmt.Println(id, err)

	// Output: 3 <nil>
}
