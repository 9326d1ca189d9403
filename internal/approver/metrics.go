package approver

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cluster-api-csr-approver/cluster-api-csr-approver/internal/reason"
)

// Metrics are the approver's own. Their labels hold only words of the closed list of reasons: no
// name or address of a request can make a new series (A18).
type Metrics struct {
	decisions *prometheus.CounterVec
}

// NewMetrics registers the metrics. Every result starts at 0, so that a rate over the first one is
// seen.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{decisions: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "csr_approver_decisions_total",
		Help: "Decisions about kubelet serving certificate requests, by result and reason. A request that is judged again with the same decision counts once.",
	}, []string{"result", "reason"})}
	registry.MustRegister(m.decisions)
	for _, r := range reason.All() {
		m.decisions.WithLabelValues(r.Outcome().String(), string(r))
	}
	return m
}

func (m *Metrics) decided(r reason.Reason) {
	m.decisions.WithLabelValues(r.Outcome().String(), string(r)).Inc()
}
