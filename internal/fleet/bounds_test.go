package fleet

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"io"
	"net/http"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// endless sends a beginning and then the same piece until the client has had enough of it. It fails
// the test when the client never has.
func endless(t *testing.T, code int, begin, piece string) http.HandlerFunc {
	chunk := []byte(strings.Repeat(piece, 1+(64<<10)/len(piece)))
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, err := io.WriteString(w, begin)
		for sent := 0; err == nil; sent += len(chunk) {
			if sent > 512<<20 {
				t.Error("the client reads without end")
				return
			}
			_, err = w.Write(chunk)
		}
	}
}

// peak watches the heap while f runs, and returns how far it grew. The tests' servers need next to
// nothing of it.
func peak(f func()) uint64 {
	runtime.GC()
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	before, most := sample[0].Value.Uint64(), uint64(0)
	var done atomic.Bool
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for !done.Load() {
			metrics.Read(sample)
			most = max(most, sample[0].Value.Uint64())
			time.Sleep(time.Millisecond)
		}
	}()
	f()
	done.Store(true)
	<-ended
	return most - min(before, most)
}

const (
	listBegin  = `{"apiVersion":"certificates.k8s.io/v1","kind":"CertificateSigningRequestList","metadata":{"resourceVersion":"1"},"items":[`
	eventBegin = `{"type":"ADDED","object":{"apiVersion":"certificates.k8s.io/v1","kind":"CertificateSigningRequest","metadata":{"name":"a"},"spec":{"usages":[`
)

// A16: whatever a cluster sends, little of it is held in memory, and what went wrong is told.
func TestBounds(t *testing.T) {
	listTooLarge := errTooLarge{maxListBody}.Error()
	objectTooLarge := errTooLarge{maxObjectBody}.Error()
	cases := []struct {
		name   string
		kind   string
		answer http.HandlerFunc
		want   string
	}{
		{"a list of one endless word", kindList, endless(t, 200, `{"kind":"`, "x"), listTooLarge},
		{"a list of empty objects", kindList, endless(t, 200, listBegin, "{},"), listTooLarge},
		{"a request of empty conditions", kindList, endless(t, 200, listBegin+`{"status":{"conditions":[`, "{},"), listTooLarge},
		{"a list of many small objects", kindList, whole(listBegin + strings.Repeat("{},", maxListBody/3-100) + "{}]}"), listTooLarge},
		{"a list of many empty words", kindList, whole(listBegin + `{"spec":{"usages":[` + strings.Repeat(`"",`, maxListBody/3-100) + `""]}}]}`), ""},
		{"a list of many labels", kindList, whole(listBegin + `{"metadata":{"labels":{` + labels(maxListBody-1000) + `}}}]}`), ""},
		{"a list of white space", kindList, endless(t, 200, "", "\n"), listTooLarge},
		{"a list of protobuf", kindList, protobuf(maxListBody), "no usable answer"},
		{"a compressed list", kindList, compressed("x"), listTooLarge},
		{"an endless error", kindList, endless(t, 500, `{"kind":"Status","message":"`, "x"), listTooLarge},
		{"an event of one endless line", kindWatch, endless(t, 200, eventBegin, `"a",`), objectTooLarge},
		{"an event of endless lines", kindWatch, endless(t, 200, eventBegin, "\"a\",\n"), objectTooLarge},
		{"an event of many objects", kindWatch, endless(t, 200, `{"type":"ADDED","object":{"status":{"conditions":[`, "{},\n"), objectTooLarge},
		{"an event of white space", kindWatch, endless(t, 200, "", "\n"), objectTooLarge},
		{"an endless error to a watch", kindWatch, endless(t, 500, "", foreignWords+"\n"), objectTooLarge},
		{"a compressed event", kindWatch, compressed("\n"), objectTooLarge},
	}
	for _, c := range cases {
		t.Run("A16 "+c.name, func(t *testing.T) {
			r := newRig(t, quick)
			r.server = newAPIServer(t)
			r.server.answer(c.kind, c.answer)
			r.secrets.set(home, kubeconfigFor(r.server, "t1"))
			want := c.want
			if want != "" {
				want = "ClusterUnavailable: " + want
			}
			grown := peak(func() {
				r.Follow(home, "uid")
				r.awaitReport(want) // on a slow machine a watch may last before it is too large
				r.Forget(home)
			})
			t.Logf("the heap grew by %d MiB", grown>>20)
			if grown > 192<<20 {
				t.Errorf("the heap grew by %d MiB", grown>>20)
			}
		})
	}
	t.Run("A16 an endless object", func(t *testing.T) {
		r := following(t, quick, serving("csr-1", "n1", 1))
		r.wantPending("n1", "csr-1")
		pending, _ := r.Pending(Key{Cluster: home, Node: "n1"})
		r.server.answer(kindGet, endless(t, 200, `{"metadata":{"name":"`, "x"))
		_, err := r.Get(context.Background(), home, pending)
		wantError(t, err, "ClusterUnavailable: "+objectTooLarge)
	})
}

// whole sends a text that is complete.
func whole(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, text)
	}
}

// labels are as many short ones as have the size.
func labels(size int) string {
	var text strings.Builder
	for i := int64(0); text.Len() < size; i++ {
		text.WriteString(`"` + strconv.FormatInt(i, 36) + `":"",`)
	}
	return text.String() + `"a":""`
}

// protobuf is a list of empty items as protobuf, two bytes each, in place of the JSON that was asked for.
func protobuf(size int) http.HandlerFunc {
	field := func(number int, content []byte) []byte {
		tag := binary.AppendUvarint(nil, uint64(number<<3|2))
		return append(binary.AppendUvarint(tag, uint64(len(content))), content...)
	}
	kind := append(field(1, []byte("certificates.k8s.io/v1")), field(2, []byte("CertificateSigningRequestList"))...)
	unknown := append(field(1, kind), field(2, bytes.Repeat(field(2, nil), size/2-100))...)
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/vnd.kubernetes.protobuf")
		_, _ = w.Write(append([]byte("k8s\x00"), unknown...))
	}
}

// compressed sends the same piece, 64 MiB of it, in little.
func compressed(piece string) http.HandlerFunc {
	var body bytes.Buffer
	z := gzip.NewWriter(&body)
	for range 64 {
		_, _ = io.WriteString(z, strings.Repeat(piece, (1<<20)/len(piece)))
	}
	_ = z.Close()
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(body.Bytes())
	}
}
