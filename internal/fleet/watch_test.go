package fleet

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// E50: what was pending before the approver started is found, page by page.
func TestListAndWatch(t *testing.T) {
	var objects []*object
	for i := range 250 {
		objects = append(objects, serving(fmt.Sprintf("csr-%03d", i), fmt.Sprintf("n%d", i), i))
	}
	other := serving("csr-foreign", "n0", 999)
	other.Spec.SignerName = "kubernetes.io/kube-apiserver-client-kubelet"
	r := following(t, quick, append(objects, other)...)
	for i := range 250 {
		r.wantPending(fmt.Sprintf("n%d", i), fmt.Sprintf("csr-%03d", i))
	}
	lists := r.server.requests(kindList)
	if len(lists) != 3 {
		t.Fatalf("%d lists, want 3 pages", len(lists))
	}
	for i, list := range lists {
		if list.query.Get("limit") != "100" || list.query.Get("fieldSelector") != "spec.signerName=kubernetes.io/kubelet-serving" {
			t.Errorf("E53: page %d was asked for with %v", i, list.query)
		}
		if (list.query.Get("continue") != "") != (i > 0) {
			t.Errorf("page %d was asked for with continue=%q", i, list.query.Get("continue"))
		}
		if list.protocol != 2 || list.agent != "approver/test" || list.authorization != "Bearer t1" {
			t.Errorf("HTTP/%d, user agent %q, authorization %q", list.protocol, list.agent, list.authorization)
		}
		if list.media != " application/json" {
			t.Errorf("the media types are %q", list.media)
		}
	}
	eventually(t, "a watch", func() bool { return r.server.watches() == 1 })
	watch := r.server.requests(kindWatch)[0].query
	seconds, _ := strconv.Atoi(watch.Get("timeoutSeconds"))
	if watch.Get("resourceVersion") != "351" || watch.Get("allowWatchBookmarks") != "true" || watch.Get("fieldSelector") != onlyServing ||
		seconds < 60 || seconds >= 120 {
		t.Errorf("watched with %v", watch)
	}

	t.Run("what happens later is seen", func(t *testing.T) {
		r.server.put(serving("csr-new", "n1", 300))
		r.wantPending("n1", "csr-new")
		r.server.put(decided(serving("csr-new", "n1", 300)))
		r.wantPending("n1", "")
		r.server.delete("csr-002")
		r.wantPending("n2", "")
	})
	t.Run("E60 a denied one is not pending", func(t *testing.T) {
		csr := decided(serving("csr-denied", "n3", 300))
		csr.Status.Conditions[0].Type = "Denied"
		r.server.put(csr)
		r.wantPending("n3", "")
	})
}

// A10, A16: what a cluster sends against the field selector, or cannot be honest, is dropped.
func TestForeignObjects(t *testing.T) {
	change := map[string]func(*object){
		"another signer":                func(c *object) { c.Spec.SignerName = "kubernetes.io/kube-apiserver-client" },
		"a user":                        func(c *object) { c.Spec.Username = "admin" },
		"a service account":             func(c *object) { c.Spec.Username = "system:serviceaccount:kube-system:x" },
		"a node without a name":         func(c *object) { c.Spec.Username = "system:node:" },
		"a node with an impossible one": func(c *object) { c.Spec.Username = "system:node:N1\n" },
		"no name":                       func(c *object) { c.Name = "" },
		"no UID":                        func(c *object) { c.UID = "" },
		"a name of 1 MB":                func(c *object) { c.Name = strings.Repeat("n", 1<<20) },
		"a UID of 1 MB":                 func(c *object) { c.UID += types.UID(strings.Repeat("u", 1<<20)) },
		"a resourceVersion of 1 MB":     func(c *object) { c.ResourceVersion = strings.Repeat("1", 1<<20) },
	}
	for _, way := range []string{kindList, kindWatch} {
		for name, change := range change {
			t.Run("A16 "+name+" by "+way, func(t *testing.T) {
				r := newRig(t, quick)
				r.server = newAPIServer(t)
				foreign := serving("csr-foreign", "n1", 2)
				change(foreign)
				if foreign.ResourceVersion == "" {
					foreign.ResourceVersion = "7"
				}
				good := serving("csr-good", "n2", 1)
				good.ResourceVersion = "8"
				if way == kindList {
					r.server.answer(kindList, func(w http.ResponseWriter, _ *http.Request) {
						writeJSON(w, http.StatusOK, listOf(foreign, good))
					})
				} else {
					r.server.answer(kindWatch, func(w http.ResponseWriter, r *http.Request) {
						writeEvent(w, "ADDED", foreign)
						writeEvent(w, "ADDED", good)
						<-r.Context().Done()
					})
				}
				r.secrets.set(home, kubeconfigFor(r.server, "t1"))
				r.Follow(home, "uid")
				r.wantPending("n2", "csr-good")
				store := r.Fleet.connection(home).store
				store.mu.Lock()
				defer store.mu.Unlock()
				if len(store.requests) != 1 || len(store.newest) != 1 {
					t.Errorf("%d requests of %d nodes are kept", len(store.requests), len(store.newest))
				}
			})
		}
	}
}

// The next watch begins where the one before ended: at its last event or bookmark.
func TestWatchResumes(t *testing.T) {
	r := newRig(t, quick)
	r.server = newAPIServer(t)
	r.server.answer(kindWatch, func(w http.ResponseWriter, request *http.Request) {
		flush(w)
		time.Sleep(2 * quick.hasty)
		csr := serving("csr-1", "n1", 1)
		switch from := request.URL.Query().Get("resourceVersion"); from {
		case "100":
			csr.ResourceVersion = "111"
			writeEvent(w, "ADDED", csr)
		case "111":
			writeEvent(w, "BOOKMARK", &object{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "222"}})
		case "222":
			csr.ResourceVersion = "333"
			writeEvent(w, "DELETED", csr)
		case "333":
			<-request.Context().Done()
		default:
			t.Errorf("watched from %q", from)
		}
	})
	r.secrets.set(home, kubeconfigFor(r.server, "t1"))
	r.Follow(home, "uid")
	r.wantReport("")
	eventually(t, "four watches", func() bool { return len(r.server.requests(kindWatch)) == 4 })
	r.wantPending("n1", "")
	if n := len(r.server.requests(kindList)); n != 1 {
		t.Errorf("listed %d times", n)
	}
	if len(r.reports) > 0 {
		t.Errorf("reported %v", <-r.reports)
	}
}

// Changes that the server no longer has are found by another list, at once and without a report.
func TestWatchExpired(t *testing.T) {
	gone := statusOf(http.StatusGone, metav1.StatusReasonExpired)
	for name, answer := range map[string]http.HandlerFunc{
		"410 Expired":     status(http.StatusGone, metav1.StatusReasonExpired),
		"410 Gone":        status(http.StatusGone, metav1.StatusReasonGone),
		"Expired in time": func(w http.ResponseWriter, _ *http.Request) { writeEvent(w, "ERROR", gone) },
	} {
		t.Run(name, func(t *testing.T) {
			r := following(t, quick, serving("csr-1", "n1", 1))
			r.wantPending("n1", "csr-1")
			first := make(chan struct{})
			var once atomic.Bool
			// The watch that runs is ended after its time; the next one is told that it comes too late.
			time.Sleep(2 * quick.steady)
			r.server.answer(kindWatch, func(w http.ResponseWriter, request *http.Request) {
				if once.CompareAndSwap(false, true) {
					r.server.put(serving("csr-2", "n2", 1))
					answer(w, request)
					close(first)
					return
				}
				r.server.watch(w, request)
			})
			r.server.endWatches()
			<-first
			r.wantPending("n2", "csr-2")
			if n := len(r.server.requests(kindList)); n != 2 {
				t.Errorf("listed %d times", n)
			}
			if len(r.reports) > 0 {
				t.Errorf("reported %v", <-r.reports)
			}
		})
	}
}

// A16: no answer makes the approver ask in a loop.
func TestNoHotLoop(t *testing.T) {
	gone := statusOf(http.StatusGone, metav1.StatusReasonExpired)
	ended := "ClusterUnavailable: the watch ended at once"
	expired := "ClusterUnavailable: its watch cannot go on from its list"
	cases := []struct {
		name   string
		kind   string
		answer http.HandlerFunc
		want   string
	}{
		{"the watch ends at once", kindWatch, func(w http.ResponseWriter, _ *http.Request) { flush(w) }, ended},
		{"one event and the end", kindWatch, func(w http.ResponseWriter, _ *http.Request) { writeEvent(w, "ADDED", serving("a", "n1", 1)) }, ended},
		{"410 for every watch", kindWatch, status(http.StatusGone, metav1.StatusReasonExpired), expired},
		{"410 as an event of every watch", kindWatch, func(w http.ResponseWriter, _ *http.Request) { writeEvent(w, "ERROR", gone) }, expired},
		{"410 for every list", kindList, status(http.StatusGone, metav1.StatusReasonExpired), "ClusterUnavailable: no usable answer"},
		{"the watch is refused", kindWatch, status(http.StatusInternalServerError, metav1.StatusReasonInternalError), "ClusterUnavailable: it answered with an error of its own"},
		{"the watch is no watch", kindWatch, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(foreignWords)) }, "ClusterUnavailable: it answered with an error of its own"},
	}
	for _, c := range cases {
		t.Run("A16 "+c.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, quick)
			r.server = newAPIServer(t)
			r.server.answer(c.kind, c.answer)
			r.secrets.set(home, kubeconfigFor(r.server, "t1"))
			r.Follow(home, "uid")
			r.wantReport(c.want)
			time.Sleep(600 * time.Millisecond)
			// Waits of 20, 40, 80, 100, 100 … ms, a fifth less at most.
			if n := len(r.server.requests(c.kind)); n < 3 || n > 15 {
				t.Errorf("asked %d times in 0.6 s", n)
			}
			for len(r.reports) > 0 {
				r.wantReport(c.want)
			}
		})
	}
}
