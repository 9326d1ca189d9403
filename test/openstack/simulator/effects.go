package simulator

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"time"
)

// Status answers with a status and pairs of header names and values. An empty body is what the
// service itself would say; anything else, such as garbage, is sent as it is.
func (s *Simulator) Status(status int, body string, headers ...string) Effect {
	return func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
		for i := 0; i+1 < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		if body == "" {
			s.errorAnswer(parseRoute(r.URL.Path).service, status, "").write(w)
			return
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		w.WriteHeader(status)
		io.WriteString(w, body)
	}
}

// Handle answers with a handler.
func Handle(handler http.HandlerFunc) Effect {
	return func(w http.ResponseWriter, r *http.Request, _ http.Handler) { handler(w, r) }
}

// Redirect sends the client to a URL.
func Redirect(to string) Effect {
	return func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
		http.Redirect(w, r, to, http.StatusTemporaryRedirect)
	}
}

// Delay answers late, unless the client gives up first.
func Delay(d time.Duration) Effect {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if wait(r, d) {
			next.ServeHTTP(w, r)
		}
	}
}

// Hang never answers. The request is in the log at once.
func Hang() Effect {
	return func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
		if rec, ok := w.(*recorder); ok {
			rec.finish()
		}
		io.Copy(io.Discard, r.Body) // net/http notices a gone client only after the body
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	}
}

// wait is false when the client gave up.
func wait(r *http.Request, d time.Duration) bool {
	select {
	case <-r.Context().Done():
		return false
	case <-time.After(d):
		return true
	}
}

// Reset ends the connection with a TCP reset instead of an answer. Go's client repeats a GET by
// itself if the connection was used before, so one reset may go unnoticed.
func Reset() Effect {
	return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		raw := conn
		if secure, ok := conn.(interface{ NetConn() net.Conn }); ok {
			raw = secure.NetConn() // closing TLS in order would send an alert first
		}
		if tcp, ok := raw.(*net.TCPConn); ok {
			tcp.SetLinger(0)
		}
		raw.Close()
	}
}

// SlowBody sends the true answer byte by byte, with a pause after each.
func SlowBody(pause time.Duration) Effect {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		body := startBody(w, r, next)
		for i := range body {
			if _, err := w.Write(body[i : i+1]); err != nil || http.NewResponseController(w).Flush() != nil || !wait(r, pause) {
				return
			}
		}
	}
}

// HugeBody answers with well-formed JSON of a size in bytes, of no use to the client.
func HugeBody(size int64) Effect {
	return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		const head, tail = `{"padding":"`, `"}`
		w.Header().Set("Content-Type", "application/json")
		w.Write([]byte(head))
		chunk := bytes.Repeat([]byte("x"), 64<<10)
		for left := size - int64(len(head)+len(tail)); left > 0; left -= int64(len(chunk)) {
			if _, err := w.Write(chunk[:min(left, int64(len(chunk)))]); err != nil {
				return
			}
		}
		w.Write([]byte(tail))
	}
}

// Truncate announces the true answer and ends the connection after half of the body.
func Truncate() Effect {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		body := startBody(w, r, next)
		w.Write(body[:len(body)/2])
		http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}

// EndlessPages gives Neutron's true lists a next page for ever: the same rows under a new marker
// each time. Clients stop at a page without rows, so the list must have one.
func EndlessPages() Effect {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		query := r.URL.Query()
		query.Del("marker") // ours are of no row
		first := r.Clone(r.Context())
		first.URL.RawQuery = query.Encode()
		captured := capture(first, next)
		var body map[string]any
		if json.Unmarshal(captured.body.Bytes(), &body) == nil && captured.status == http.StatusOK {
			query.Set("marker", newUUID())
			again := url.URL{Scheme: "http", Host: r.Host, Path: r.URL.Path, RawQuery: query.Encode()}
			if r.TLS != nil {
				again.Scheme = "https"
			}
			body[path.Base(r.URL.Path)+"_links"] = links("next", again.String())
		}
		answer{status: captured.status, header: captured.header, body: body}.write(w)
	}
}

// startBody sends the true answer's header and returns its body.
func startBody(w http.ResponseWriter, r *http.Request, next http.Handler) []byte {
	captured := capture(r, next)
	for key, values := range captured.header {
		w.Header()[key] = values
	}
	w.WriteHeader(captured.status)
	return captured.body.Bytes()
}

// capture runs the true answer without sending it.
func capture(r *http.Request, next http.Handler) *captured {
	c := &captured{header: http.Header{}}
	next.ServeHTTP(c, r)
	return c
}

type captured struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (c *captured) Header() http.Header         { return c.header }
func (c *captured) WriteHeader(status int)      { c.status = status }
func (c *captured) Write(b []byte) (int, error) { return c.body.Write(b) }
