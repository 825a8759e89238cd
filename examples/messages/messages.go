// Package messages is an example of how messages carry tokens: over NATS, Kafka, and wherever OpenTelemetry's propagators
// go. What publishes has written something; what consumes reads it.
package messages

import (
	"context"

	"github.com/nats-io/nats.go"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.opentelemetry.io/otel/propagation"

	"github.com/readroute/readroute"
)

// Publish sends a NATS message with the token of ctx's session. The headers of NATS are a readroute.Carrier as they are.
func Publish(ctx context.Context, codec *readroute.Codec, conn *nats.Conn, subject string, data []byte) error {
	m := nats.NewMsg(subject)
	m.Data = data
	codec.Inject(ctx, m.Header)
	return conn.PublishMsg(m)
}

// Handler makes a NATS handler of a function that is given a session for each message.
func Handler(ctx context.Context, codec *readroute.Codec, handle func(ctx context.Context, m *nats.Msg)) nats.MsgHandler {
	return func(m *nats.Msg) { handle(codec.Extract(ctx, m.Header), m) }
}

// Answering is Handler for requests: the answer tells the requester's session what handle has written.
func Answering(ctx context.Context, codec *readroute.Codec, handle func(ctx context.Context, m *nats.Msg) []byte) nats.MsgHandler {
	return Handler(ctx, codec, func(ctx context.Context, m *nats.Msg) {
		answer := nats.NewMsg(m.Reply)
		answer.Data = handle(ctx, m)
		codec.Reply(ctx, answer.Header)
		_ = m.RespondMsg(answer) // who has asked goes without, and takes it for lost
	})
}

// Ask sends a NATS request with the token of ctx's session, which learns from the answer.
func Ask(ctx context.Context, codec *readroute.Codec, conn *nats.Conn, subject string, data []byte) ([]byte, error) {
	m := nats.NewMsg(subject)
	m.Data = data
	codec.Inject(ctx, m.Header)
	answer, err := conn.RequestMsgWithContext(ctx, m)
	if err != nil {
		codec.Merge(ctx, nil) // it may have been handled all the same
		return nil, err
	}
	codec.Merge(ctx, answer.Header)
	return answer.Data, nil
}

// Kafka makes a readroute.Carrier of a Kafka record's headers.
type Kafka struct{ *kgo.Record }

var _ readroute.Carrier = Kafka{}

// Get implements readroute.Carrier.
func (k Kafka) Get(key string) string {
	for _, value := range k.Values(key) {
		return value
	}
	return ""
}

// Values returns all that is kept under key: a record may have several headers of one name.
func (k Kafka) Values(key string) (values []string) {
	for _, h := range k.Headers {
		if h.Key == key {
			values = append(values, string(h.Value))
		}
	}
	return values
}

// Set implements readroute.Carrier.
func (k Kafka) Set(key, value string) {
	for i := range k.Headers {
		if k.Headers[i].Key == key {
			k.Headers[i].Value = []byte(value)
			return
		}
	}
	k.Headers = append(k.Headers, kgo.RecordHeader{Key: key, Value: []byte(value)})
}

// Batch returns a context with one session for all records of a poll: it sees what each of them is about.
func Batch(ctx context.Context, codec *readroute.Codec, records []*kgo.Record) context.Context {
	carriers := make([]readroute.Carrier, len(records))
	for i, r := range records {
		carriers[i] = Kafka{r}
	}
	return codec.Extract(ctx, carriers...)
}

// Propagator lets tokens go wherever OpenTelemetry's propagators go: with
//
//	otel.SetTextMapPropagator(propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, messages.Propagator{codec}))
//
// every instrumented client sends them, and every instrumented server and consumer takes them in. They do not come back with
// answers that way: servers have readroute's middleware or interceptors as well, outside of the instrumentation or inside of it.
type Propagator struct{ Codec *readroute.Codec }

var _ propagation.TextMapPropagator = Propagator{}

// Inject implements propagation.TextMapPropagator.
func (p Propagator) Inject(ctx context.Context, carrier propagation.TextMapCarrier) {
	p.Codec.Inject(ctx, carrier)
}

// Extract implements propagation.TextMapPropagator.
func (p Propagator) Extract(ctx context.Context, carrier propagation.TextMapCarrier) context.Context {
	return p.Codec.Extract(ctx, carrier)
}

// Fields implements propagation.TextMapPropagator.
func (p Propagator) Fields() []string { return []string{p.Codec.Header()} }
