package fleet

import (
	"context"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	certificatesclient "k8s.io/client-go/kubernetes/typed/certificates/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/reason"
	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/verdict"
)

// Get reads a request live. An object of another UID than the pending one's is another request, so
// it counts as gone.
//
// The error is always a *reason.Problem.
func (f *Fleet) Get(ctx context.Context, cluster client.ObjectKey, p Pending) (*certificatesv1.CertificateSigningRequest, error) {
	c, err := f.connectionOf(cluster)
	if err != nil {
		return nil, err
	}
	var csr *certificatesv1.CertificateSigningRequest
	err = c.use(ctx, func(ctx context.Context, requests certificatesclient.CertificateSigningRequestInterface) (err error) {
		csr, err = requests.Get(ctx, p.Name, metav1.GetOptions{})
		return err
	})
	switch {
	case err != nil:
		return nil, problem(err)
	case csr.UID != p.UID:
		return nil, reason.New(reason.RequestGone, "another request has its name now")
	}
	return csr, nil
}

// Approve adds the condition Approved to exactly the version of the request that the approval was
// given for: the API server refuses the write when its UID or resourceVersion is another now (A19).
//
// The error is always a *reason.Problem.
func (f *Fleet) Approve(ctx context.Context, cluster client.ObjectKey, csr *certificatesv1.CertificateSigningRequest, approval verdict.Approval) error {
	if !approval.Covers(csr.UID, csr.ResourceVersion) {
		return reason.New(reason.RequestChanged, "the approval was given for another version of it")
	}
	c, err := f.connectionOf(cluster)
	if err != nil {
		return err
	}
	approved := csr.DeepCopy()
	approved.Status.Conditions = append(approved.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type:    certificatesv1.CertificateApproved,
		Status:  corev1.ConditionTrue,
		Reason:  string(reason.Approved),
		Message: "Every name and address belongs to the machine behind the node.",
	})
	return problem(c.use(ctx, func(ctx context.Context, requests certificatesclient.CertificateSigningRequestInterface) error {
		_, err := requests.UpdateApproval(ctx, approved.Name, approved, metav1.UpdateOptions{})
		return err
	}))
}

// problem gives an answer of the workload cluster its reason.
func problem(err error) error {
	switch {
	case err == nil:
		return nil
	case apierrors.IsNotFound(err):
		return reason.New(reason.RequestGone, "it was deleted")
	case apierrors.IsConflict(err):
		return reason.New(reason.RequestChanged, "it was changed meanwhile")
	}
	if p := reason.Of(err, ""); p.Reason != "" {
		return p
	}
	return unavailable(err)
}
