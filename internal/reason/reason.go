package reason

// Reason is one entry of the closed list. It is the reason of an Event, the metric label "reason"
// and the log key "reason".
type Reason string

// The request is not ours to judge.
const (
	OtherSigner    Reason = "OtherSigner"
	AlreadyDecided Reason = "AlreadyDecided"
	NotANode       Reason = "NotANode"
	RequestGone    Reason = "RequestGone"
)

// The request's own bytes break a rule. They never change, so the request is never judged again.
const (
	RequestTooLarge   Reason = "RequestTooLarge"
	GroupsMissing     Reason = "GroupsMissing"
	UsagesNotAllowed  Reason = "UsagesNotAllowed"
	PEMInvalid        Reason = "PEMInvalid"
	RequestUnparsable Reason = "RequestUnparsable"
	SignatureInvalid  Reason = "SignatureInvalid"
	KeyNotAllowed     Reason = "KeyNotAllowed"
	SubjectMismatch   Reason = "SubjectMismatch"
	SANMissing        Reason = "SANMissing"
	SANKindNotAllowed Reason = "SANKindNotAllowed"
	TooManySANs       Reason = "TooManySANs"
	DNSNameInvalid    Reason = "DNSNameInvalid"
	AddressNotAllowed Reason = "AddressNotAllowed"
	ExpirationTooLong Reason = "ExpirationTooLong"
)

// What the management cluster says about the machine.
const (
	NoMachine                  Reason = "NoMachine"
	NameMismatch               Reason = "NameMismatch"
	AmbiguousMachine           Reason = "AmbiguousMachine"
	MachineNotMember           Reason = "MachineNotMember"
	InfrastructureMissing      Reason = "InfrastructureMissing"
	InfrastructureNotOwned     Reason = "InfrastructureNotOwned"
	InfrastructureNotSupported Reason = "InfrastructureNotSupported"
	ProviderIDMissing          Reason = "ProviderIDMissing"
	ProviderIDMismatch         Reason = "ProviderIDMismatch"
	ProviderIDInvalid          Reason = "ProviderIDInvalid"
	InstanceIDMismatch         Reason = "InstanceIDMismatch"
	OwnershipRecordInvalid     Reason = "OwnershipRecordInvalid"
	ManagementUnavailable      Reason = "ManagementUnavailable"
)

// The credential that the cluster's cloud is asked with.
const (
	CredentialMissing      Reason = "CredentialMissing"
	CredentialInvalid      Reason = "CredentialInvalid"
	CredentialInsecure     Reason = "CredentialInsecure"
	CredentialNotSupported Reason = "CredentialNotSupported"
	CredentialNotAllowed   Reason = "CredentialNotAllowed"
	CredentialRejected     Reason = "CredentialRejected"
)

// What the cloud answers.
const (
	ServerNotFound     Reason = "ServerNotFound"
	ServerDeleted      Reason = "ServerDeleted"
	ServerOtherProject Reason = "ServerOtherProject"
	PortsMissing       Reason = "PortsMissing"
	CloudUnavailable   Reason = "CloudUnavailable"
	CloudForbidden     Reason = "CloudForbidden"
	CloudAnswerInvalid Reason = "CloudAnswerInvalid"
)

// The comparison of what is asked with what the machine owns.
const (
	Approved              Reason = "Approved"
	NameNotOwned          Reason = "NameNotOwned"
	AddressNotOwned       Reason = "AddressNotOwned"
	AddressReserved       Reason = "AddressReserved"
	AddressInClusterRange Reason = "AddressInClusterRange"
	AddressHeldByOther    Reason = "AddressHeldByOther"
	PortNotActive         Reason = "PortNotActive"
)

// The workload cluster.
const (
	KubeconfigMissing  Reason = "KubeconfigMissing"
	KubeconfigInvalid  Reason = "KubeconfigInvalid"
	ClusterUnavailable Reason = "ClusterUnavailable"
	RequestChanged     Reason = "RequestChanged"
)
