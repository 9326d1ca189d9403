package reason

import "slices"

// Entry says what a reason means and leads to.
type Entry struct {
	Outcome Outcome
	// Final reasons are about the request's own bytes, which never change: such a request is
	// never judged again. All others are judged again later.
	Final bool
	// Meaning completes "not approved because …"; Remedy tells the operator what to do next.
	Meaning, Remedy string
}

// Entry returns the list's entry of a reason. A reason outside the list has the zero Entry, whose
// outcome is invalid.
func (r Reason) Entry() Entry { return entries[r] }

// Outcome is what the reason leads to.
func (r Reason) Outcome() Outcome { return entries[r].Outcome }

// All returns the whole list, sorted by name.
func All() []Reason {
	all := make([]Reason, 0, len(entries))
	for r := range entries {
		all = append(all, r)
	}
	slices.Sort(all)
	return all
}

var entries = map[Reason]Entry{
	OtherSigner:    {Ignore, false, "the signer is not kubernetes.io/kubelet-serving", "nothing to do"},
	AlreadyDecided: {Ignore, false, "the request is approved, denied, failed or issued already", "nothing to do"},
	NotANode:       {Ignore, false, "the user who asked is not a node (system:node:NAME)", "another approver may own this request; look who created it"},
	RequestGone:    {Ignore, false, "the request was deleted, or a newer one of the same node took its place", "nothing to do"},

	RequestTooLarge:   {Refuse, true, "spec.request is larger than 64 KiB", "no kubelet sends this; look what runs on the node"},
	GroupsMissing:     {Refuse, true, "the groups of the user lack system:nodes or system:authenticated", "check how the node authenticates"},
	UsagesNotAllowed:  {Refuse, true, "the usages are not digital signature and server auth, with or without key encipherment", "no kubelet sends this; look what runs on the node"},
	PEMInvalid:        {Refuse, true, "spec.request is not exactly one PEM block of type CERTIFICATE REQUEST", "no kubelet sends this; look what runs on the node"},
	RequestUnparsable: {Refuse, true, "the PKCS#10 request does not parse", "no kubelet sends this; look what runs on the node"},
	SignatureInvalid:  {Refuse, true, "the request is not signed by its own key", "no kubelet sends this; look what runs on the node"},
	KeyNotAllowed:     {Refuse, true, "the key is not ECDSA P-256, P-384 or P-521, RSA of 2048 to 16384 bits, or Ed25519", "no kubelet sends this; look what runs on the node"},
	SubjectMismatch:   {Refuse, true, "the subject is not exactly CN = the user who asked and O = system:nodes", "no kubelet sends this; look what runs on the node"},
	SANMissing:        {Refuse, true, "the request names no DNS name and no address", "check the node's addresses in its status"},
	SANKindNotAllowed: {Refuse, true, "the request holds subject alternative names other than DNS names and IP addresses", "no kubelet sends this; look what runs on the node"},
	TooManySANs:       {Refuse, true, "the request holds more than 64 names and addresses", "check the node's addresses in its status"},
	DNSNameInvalid:    {Refuse, true, "a DNS name is not a plain DNS-1123 name (wildcards, trailing dots and addresses written as names are not)", "check the node's addresses in its status"},
	AddressNotAllowed: {Refuse, true, "an address is unspecified, loopback, link-local or multicast", "check the node's addresses in its status"},
	ExpirationTooLong: {Refuse, true, "the request asks for a longer lifetime than --max-expiration", "no kubelet asks for a lifetime; look what runs on the node"},

	NoMachine:                  {Wait, false, "no Machine of the cluster has an infrastructure machine of the node's name", "check the node's host name and the Machine's spec.infrastructureRef.name"},
	NameMismatch:               {Refuse, false, "a Machine is linked to this node, but its infrastructure machine has another name", "a node must be named after its infrastructure machine; check the host name and --node-domain"},
	AmbiguousMachine:           {Refuse, false, "several Machines of the cluster could have a node of this name, or have one server", "rename or remove one of the Machines"},
	MachineNotMember:           {Refuse, false, "the Machine's label and spec.clusterName do not both name the cluster", "repair the Machine's label cluster.x-k8s.io/cluster-name"},
	InfrastructureMissing:      {Wait, false, "the Machine's infrastructure object does not exist", "wait for Cluster API, or check spec.infrastructureRef of the Machine"},
	InfrastructureNotOwned:     {Refuse, false, "the infrastructure object's controller is not the Machine that refers to it", "somebody changed the owner references; compare them with the Machine"},
	InfrastructureNotSupported: {Refuse, false, "no source of addresses knows this kind of infrastructure", "see the list of supported kinds"},
	ProviderIDMissing:          {Wait, false, "spec.providerID is not set yet on the Machine or its infrastructure object", "wait for the infrastructure provider"},
	ProviderIDMismatch:         {Refuse, false, "the Machine and its infrastructure object have different spec.providerID", "somebody changed one of them; compare with the cloud"},
	ProviderIDInvalid:          {Refuse, false, "spec.providerID is not openstack://[REGION]/SERVER-UUID", "compare it with the cloud"},
	InstanceIDMismatch:         {Refuse, false, "the status of the infrastructure object names another server than spec.providerID", "somebody changed one of them; compare with the cloud"},
	OwnershipRecordInvalid:     {Error, false, "an object that records what belongs to a machine cannot be decoded", "compare the object with its custom resource definition"},
	ManagementUnavailable:      {Error, false, "the management cluster's API server did not answer or refused", "check the approver's rights and its API server"},

	CredentialMissing:      {Wait, false, "the credential that identityRef names, or the cloud in it, does not exist", "create the Secret, or correct identityRef"},
	CredentialInvalid:      {Refuse, false, "the credential's clouds.yaml or CA cannot be used", "correct the Secret"},
	CredentialInsecure:     {Refuse, false, "the credential asks for http or for unverified TLS", "use https, with the CA in key cacert if it is a private one; or start the approver with --allow-insecure-openstack"},
	CredentialNotSupported: {Refuse, false, "the kind of credential or identityRef is not supported", "use a Secret or an OpenStackClusterIdentity, with a password or an application credential"},
	CredentialNotAllowed:   {Refuse, false, "the OpenStackClusterIdentity's namespaceSelector leaves the Cluster's namespace out", "label the namespace, or use a credential that is for it"},
	CredentialRejected:     {Error, false, "the cloud does not accept the credential", "renew the credential in the Secret"},

	ServerNotFound:     {Refuse, false, "the cloud has no server of the Machine's ID in the credential's project and region", "check project and region of the credential; a deleted server's Machine goes away by itself"},
	ServerDeleted:      {Refuse, false, "the server is deleted", "the Machine goes away by itself"},
	ServerOtherProject: {Refuse, false, "the server belongs to another project than the credential", "use the credential of the project that owns the server"},
	PortsMissing:       {Wait, false, "the cloud lists no port of the server", "wait, or check the credential's rights in Neutron"},
	CloudUnavailable:   {Error, false, "the cloud did not answer, or answered with an error of its own", "check the cloud's endpoints"},
	CloudForbidden:     {Error, false, "the cloud's policy forbids a read that the approver needs", "give the credential the role reader"},
	CloudAnswerInvalid: {Error, false, "the cloud's answer cannot be understood", "check the cloud's endpoints"},

	Approved:              {Approve, false, "every name and address belongs to the machine", "nothing to do"},
	NameNotOwned:          {Refuse, false, "a DNS name is not one of the machine's", "compare the node's addresses in its status with the infrastructure machine's name"},
	AddressNotOwned:       {Refuse, false, "an address is on no port of the machine's server", "compare the node's addresses in its status with the cloud; accessIPv4 and allowed address pairs prove nothing"},
	AddressReserved:       {Refuse, false, "an address belongs to the cluster itself: its API endpoint or a service", "check the node's addresses in its status"},
	AddressInClusterRange: {Refuse, false, "an address lies in the cluster's service or pod range and is not on a port that the infrastructure provider made", "do not attach networks that overlap the cluster's ranges"},
	AddressHeldByOther:    {Refuse, false, "another Machine of the cluster holds the same address now", "detach the overlapping network from one of the two servers"},
	PortNotActive:         {Wait, false, "an address is on a port that does not count yet: not ACTIVE and not made by the infrastructure provider, or of another project", "wait for the port to become ACTIVE, or check who created it"},

	KubeconfigMissing:  {Wait, false, "the cluster's kubeconfig Secret does not exist", "wait for Cluster API"},
	KubeconfigInvalid:  {Refuse, false, "the cluster's kubeconfig is not one the approver can use safely", "correct the Secret CLUSTER-kubeconfig"},
	ClusterUnavailable: {Error, false, "the cluster's API server did not answer or refused", "check that the API server can be reached from the management cluster"},
	RequestChanged:     {Ignore, false, "the request changed between verdict and approval, so it is judged anew", "nothing to do"},
}
