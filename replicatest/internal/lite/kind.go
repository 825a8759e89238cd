package lite

import "github.com/readroute/readroute/internal/sqlclass"

// kind is what a text does to the server's one gate for writes, and to the transaction of its connection.
type kind uint8

const (
	kindWrite kind = iota // it may write, for all that is known
	kindRead
	kindBegin
	kindEnd
)

// classifier is the library's own: a second reading of the same text would differ from the first somewhere.
var classifier = func() *sqlclass.Classifier {
	c, err := sqlclass.New(sqlclass.Options{Dialect: sqlclass.SQLite})
	if err != nil {
		panic("lite: " + err.Error())
	}
	return c
}()

func kindOf(query string) kind {
	st := classifier.Classify(query)
	switch {
	case st.Multi, st.CommitsOnError, st.Class == sqlclass.Write:
		return kindWrite
	case st.Class == sqlclass.TxControl:
		switch {
		case st.BeginsTx:
			return kindBegin
		case st.EndsTx:
			return kindEnd
		case st.Token == "RELEASE":
			return kindWrite // it may end the transaction that a SAVEPOINT began
		}
		return kindRead // back to a savepoint
	case st.Class == sqlclass.SessionState && (st.MayWrite || st.LeavesState):
		return kindWrite
	}
	return kindRead // also with a function that is not known: in SQLite a query changes nothing
}
