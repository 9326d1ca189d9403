package bed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/util/retry"
)

// KubeletHealthz asks the node's kubelet for /healthz through the API server, which verifies the
// kubelet's certificate: what "kubectl logs" and "kubectl exec" need too. It returns the body, "ok"
// from a healthy kubelet. While the kubelet has no certificate the error contains "remote error:
// tls: internal error".
func (w *Workload) KubeletHealthz(ctx context.Context, node string) (string, error) {
	result := w.Clientset.CoreV1().RESTClient().Get().
		AbsPath("/api/v1/nodes", node, "proxy", "healthz").Timeout(10 * time.Second).Do(ctx)
	body, err := result.Raw()
	if err != nil {
		return "", fmt.Errorf("healthz of node %s: %w: %s", node, err, body)
	}
	return string(body), nil
}

// Requests returns the node's requests for a serving certificate, the newest last.
func (w *Workload) Requests(ctx context.Context, node string) ([]certificatesv1.CertificateSigningRequest, error) {
	selector := fields.OneTermEqualSelector("spec.signerName", certificatesv1.KubeletServingSignerName)
	list, err := w.Clientset.CertificatesV1().CertificateSigningRequests().List(ctx, metav1.ListOptions{FieldSelector: selector.String()})
	if err != nil {
		return nil, err
	}
	items := slices.DeleteFunc(list.Items, func(r certificatesv1.CertificateSigningRequest) bool {
		return r.Spec.Username != "system:node:"+node
	})
	slices.SortFunc(items, func(a, b certificatesv1.CertificateSigningRequest) int {
		// Times are whole seconds; resource versions grow, and those of equal length compare as text.
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
			cmp.Compare(len(a.ResourceVersion), len(b.ResourceVersion)), cmp.Compare(a.ResourceVersion, b.ResourceVersion))
	})
	return items, nil
}

// WaitRequest waits up to a minute for a request of the node that is pending, and returns the
// newest one.
func (w *Workload) WaitRequest(ctx context.Context, node string) (*certificatesv1.CertificateSigningRequest, error) {
	var found *certificatesv1.CertificateSigningRequest
	err := waitFor(ctx, w.bed, time.Minute, func(ctx context.Context) error {
		requests, err := w.Requests(ctx, node)
		if err != nil {
			return err
		}
		for _, request := range slices.Backward(requests) {
			if len(request.Status.Conditions) == 0 {
				found = &request
				return nil
			}
		}
		return fmt.Errorf("node %s has no pending request", node)
	})
	return found, err
}

// Approve approves a request as the administrator, as "kubectl certificate approve" does.
func (w *Workload) Approve(ctx context.Context, name string) error {
	requests := w.Clientset.CertificatesV1().CertificateSigningRequests()
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		request, err := requests.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		request.Status.Conditions = append(request.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
			Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue,
			Reason: "TestBed", Message: "approved by the test bed",
		})
		_, err = requests.UpdateApproval(ctx, name, request, metav1.UpdateOptions{})
		return err
	})
}

// WaitCertificate waits up to a minute for the certificate of a request and returns it as PEM. The
// wait ends early when the request is denied or could not be signed.
func (w *Workload) WaitCertificate(ctx context.Context, name string) ([]byte, error) {
	var pem []byte
	err := waitFor(ctx, w.bed, time.Minute, func(ctx context.Context) error {
		request, err := w.Clientset.CertificatesV1().CertificateSigningRequests().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, condition := range request.Status.Conditions {
			if condition.Type != certificatesv1.CertificateApproved {
				return &finalError{fmt.Errorf("request %s is %s: %s: %s", name, condition.Type, condition.Reason, condition.Message)}
			}
		}
		if pem = request.Status.Certificate; len(pem) == 0 {
			return errors.New("no certificate yet")
		}
		return nil
	})
	return pem, err
}

// WaitHealthz waits up to the given time until the node's kubelet is reachable with a certificate
// that the API server accepts.
func (w *Workload) WaitHealthz(ctx context.Context, node string, limit time.Duration) error {
	return waitFor(ctx, w.bed, limit, func(ctx context.Context) error {
		_, err := w.KubeletHealthz(ctx, node)
		return err
	})
}
