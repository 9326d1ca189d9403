package fleet

import (
	"context"
	"encoding/json"
	"net/http"
	"reflect"
	"slices"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/request"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/verdict"
)

// approvalFor is a true approval of this version of the request.
func approvalFor(t *testing.T, csr *object) verdict.Approval {
	t.Helper()
	v := verdict.Judge(request.Request{UID: csr.UID, ResourceVersion: csr.ResourceVersion, DNSNames: []string{"n1"}},
		verdict.Owner{Names: []string{"n1"}}, verdict.Evidence{})
	approval, ok := v.Approval()
	if !ok {
		t.Fatal("no approval")
	}
	return approval
}

func TestApprove(t *testing.T) {
	mine := serving("csr-1", "n1", 1)
	mine.Labels = map[string]string{"kept": "yes"}
	mine.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: "Seen", Status: "True", Reason: "ByAnother"}}
	r := following(t, quick, mine)
	r.wantPending("n1", "csr-1")
	pending, _ := r.Pending(Key{Cluster: home, Node: "n1"})
	csr, err := r.Get(context.Background(), home, pending)
	wantError(t, err, "")
	read := csr.DeepCopy()
	wantError(t, r.Approve(context.Background(), home, csr, approvalFor(t, csr)), "")
	if !reflect.DeepEqual(csr, read) {
		t.Error("the object that was handed in is changed")
	}
	puts := r.server.requests(kindApprove)
	if len(puts) != 1 || puts[0].path != collection+"/csr-1/approval" || len(puts[0].query) > 0 ||
		puts[0].media != "application/json application/json" || puts[0].authorization != "Bearer t1" || puts[0].agent != "approver/test" {
		t.Fatalf("sent %+v", puts)
	}
	var sent object
	if err := json.Unmarshal([]byte(puts[0].body), &sent); err != nil {
		t.Fatal(err)
	}
	if sent.UID != "uid-csr-1" || sent.ResourceVersion != "101" {
		t.Errorf("A19: guarded by UID %q and resourceVersion %q", sent.UID, sent.ResourceVersion)
	}
	if !reflect.DeepEqual(sent.Spec, csr.Spec) || sent.Labels["kept"] != "yes" {
		t.Errorf("sent %+v", sent)
	}
	want := append(slices.Clone(read.Status.Conditions), certificatesv1.CertificateSigningRequestCondition{
		Type: "Approved", Status: "True", Reason: "Approved", Message: "Every name and address belongs to the machine behind the node.",
	})
	if !reflect.DeepEqual(sent.Status.Conditions, want) {
		t.Errorf("sent conditions %+v", sent.Status.Conditions)
	}
	r.wantPending("n1", "")
}

// E61, A19: what happens between read and write is told apart, and nothing is approved.
func TestApproveRaces(t *testing.T) {
	cases := []struct {
		name string
		race func(*apiServer, *object)
		want string
	}{
		{"E61 approved by another", func(s *apiServer, csr *object) { s.put(decided(csr)) }, "RequestChanged: it was changed meanwhile"},
		{"E60 denied by another", func(s *apiServer, csr *object) {
			denied := decided(csr)
			denied.Status.Conditions[0].Type = "Denied"
			s.put(denied)
		}, "RequestChanged: it was changed meanwhile"},
		{"A19 deleted", func(s *apiServer, csr *object) { s.delete(csr.Name) }, "RequestGone: it was deleted"},
		{"A19 deleted and made again", func(s *apiServer, csr *object) {
			s.delete(csr.Name)
			again := csr.DeepCopy()
			again.UID = "another"
			s.put(again)
		}, "RequestChanged: it was changed meanwhile"},
		{"rights are missing", func(s *apiServer, _ *object) { s.answer(kindApprove, status(403, metav1.StatusReasonForbidden)) },
			"ClusterUnavailable: the kubeconfig's user may not read or approve certificate signing requests"},
		{"invalid", func(s *apiServer, _ *object) { s.answer(kindApprove, status(422, metav1.StatusReasonInvalid)) },
			"ClusterUnavailable: no usable answer"},
		{"A16 Retry-After of an hour", func(s *apiServer, _ *object) {
			s.answer(kindApprove, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Retry-After", "3600")
				status(429, metav1.StatusReasonTooManyRequests)(w, r)
			})
		}, "ClusterUnavailable: it asks for fewer requests"},
		{"A16 hangs", func(s *apiServer, _ *object) {
			s.answer(kindApprove, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		}, "ClusterUnavailable: no answer in time"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := following(t, quick, serving("csr-1", "n1", 1))
			r.wantPending("n1", "csr-1")
			pending, _ := r.Pending(Key{Cluster: home, Node: "n1"})
			csr, err := r.Get(context.Background(), home, pending)
			wantError(t, err, "")
			c.race(r.server, csr)
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			wantError(t, r.Approve(ctx, home, csr, approvalFor(t, csr)), c.want)
			if n := len(r.server.requests(kindApprove)); n != 1 {
				t.Errorf("sent %d times", n)
			}
			if left := r.server.objects["csr-1"]; left != nil && left.UID == "another" && len(left.Status.Conditions) > 0 {
				t.Error("another request was approved")
			}
		})
	}
}

// A19: an approval is good for one version of one request, and none is good for none.
func TestApprovalOfAnother(t *testing.T) {
	r := following(t, quick, serving("csr-1", "n1", 1))
	r.wantPending("n1", "csr-1")
	csr := r.server.put(serving("csr-1", "n1", 1))
	with := func(uid, version string) *object {
		other := csr.DeepCopy()
		other.UID, other.ResourceVersion = csr.UID+"x", version
		if uid != "" {
			other.UID = csr.UID
		}
		return other
	}
	cases := map[string]struct {
		csr      *object
		approval verdict.Approval
	}{
		"A19 the zero approval":                  {csr, verdict.Approval{}},
		"A19 another resourceVersion":            {csr, approvalFor(t, with("same", "7"))},
		"A19 another UID":                        {csr, approvalFor(t, with("", csr.ResourceVersion))},
		"A19 the zero approval of a zero object": {&object{}, verdict.Approval{}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			wantError(t, r.Approve(context.Background(), home, c.csr, c.approval),
				"RequestChanged: the approval was given for another version of it")
		})
	}
	if sent := r.server.requests(kindApprove); sent != nil {
		t.Errorf("sent %+v", sent)
	}
}

func TestGet(t *testing.T) {
	r := following(t, quick, serving("csr-1", "n1", 1))
	r.wantPending("n1", "csr-1")
	pending, _ := r.Pending(Key{Cluster: home, Node: "n1"})
	other := pending
	other.UID = "another"
	gone := pending
	gone.Name = "gone"
	path := pending
	path.Name = "../../../api/v1/namespaces/kube-system/secrets/" + foreignWords
	cases := map[string]struct {
		cluster client.ObjectKey
		pending Pending
		want    string
	}{
		"there":                         {home, pending, ""},
		"A19 another UID":               {home, other, "RequestGone: another request has its name now"},
		"deleted":                       {home, gone, "RequestGone: it was deleted"},
		"a cluster that nobody follows": {client.ObjectKey{Name: "other"}, pending, "RequestGone: the cluster is no longer followed"},
		"A16 a name that is a path":     {home, path, "ClusterUnavailable: no usable answer"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			csr, err := r.Get(context.Background(), c.cluster, c.pending)
			wantError(t, err, c.want)
			if (csr != nil) != (c.want == "") {
				t.Errorf("got %+v", csr)
			}
		})
	}
	for _, asked := range r.server.requests(kindGet) {
		if asked.path != collection+"/csr-1" && asked.path != collection+"/gone" {
			t.Errorf("asked for %s", asked.path)
		}
	}
	wantError(t, r.Approve(context.Background(), client.ObjectKey{Name: "other"}, serving("a", "n1", 1), verdict.Approval{}),
		"RequestChanged: the approval was given for another version of it")
	csr := serving("a", "n1", 1)
	csr.ResourceVersion = "1"
	wantError(t, r.Approve(context.Background(), client.ObjectKey{Name: "other"}, csr, approvalFor(t, csr)),
		"RequestGone: the cluster is no longer followed")
}
