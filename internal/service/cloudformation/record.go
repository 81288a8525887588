package cloudformation

import (
	"encoding/json"
	"time"

	cloudformationtypes "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/store"
)

var (
	// stacks are keyed by the unique part of their ID, because names can be reused.
	stacks = store.NewCollection[stackRecord]("cloudformation", "stack", store.Same, store.Same, store.Same, store.Same, store.Same, store.Same, store.Same, store.Same)
	// resources are keyed by STACK/LOGICAL, events by STACK/NUMBER.
	resources = store.NewCollection[resourceRecord]("cloudformation", "resource", store.Same, store.Same, store.Same, store.Same, store.Same, store.Same, store.Same)
	events    = store.NewCollection[eventRecord]("cloudformation", "event", store.Same)
	// changeSets are keyed by STACK/ID.
	changeSets = store.NewCollection[changeSetRecord]("cloudformation", "changeset", store.Same, store.Same, store.Same, store.Same)
	// texts are keyed by STACK/ID.
	texts = store.NewCollection[textRecord]("cloudformation", "text")
)

// A stackRecord is a stack, which may have been deleted.
type stackRecord struct {
	ID, Name string
	Status   cloudformationtypes.StackStatus
	Reason   string `json:",omitempty"`
	Created  time.Time
	Updated  time.Time `json:",omitzero"`
	Deleted  time.Time `json:",omitzero"`
	versionRecord
	// Previous is the version that the running or failed update would roll back to.
	Previous  *versionRecord `json:",omitempty"`
	OnFailure string         // ROLLBACK, DELETE or DO_NOTHING
	// KeepFailed is true if a failed update is not rolled back.
	KeepFailed bool          `json:",omitempty"`
	Timeout    time.Duration `json:",omitempty"`
	Protected  bool          `json:",omitempty"`
	Events     int64         // how many there have been
	// Unpublished is how many of the latest events have not been sent to the stack's topics yet.
	Unpublished int64    `json:",omitempty"`
	RoleARN     string   `json:",omitempty"`
	Retain      []string `json:",omitempty"` // of the running deletion
	Skip        []string `json:",omitempty"` // of the running rollback
	// Policy is the stack policy, and PolicyOnce the one of the running update.
	Policy     string `json:",omitempty"`
	PolicyOnce string `json:",omitempty"`
	// ChangeSet is the ARN of the change set that the last operation came from.
	ChangeSet string `json:",omitempty"`
	// Parent and Root are the ARNs of a nested stack's parent and root. Logical is its logical ID in the parent, and
	// Depth is the number of stacks above it.
	Parent  string `json:",omitempty"`
	Root    string `json:",omitempty"`
	Logical string `json:",omitempty"`
	Depth   int    `json:",omitempty"`
	// Held is true if the clean-up of an update waits for the parent's.
	Held bool `json:",omitempty"`
	// Fault is the reason why a transform of the last operation's template failed.
	Fault string `json:",omitempty"`
	// Drift is the result of the last detection of drift.
	Drift             cloudformationtypes.StackDriftStatus `json:",omitempty"`
	DriftChecked      time.Time                            `json:",omitzero"`
	Operation         operationRecord
	CreateToken       string `json:",omitempty"`
	CreateFingerprint string `json:",omitempty"`
}

// A versionRecord is what a stack is created from, with the resulting outputs and imports.
// An update gives the stack a new one.
type versionRecord struct {
	// Template is the text that was submitted, and Processed the result of its transforms.
	Template  string
	Processed string `json:",omitempty"`
	// Texts is the ID of the record that has both instead, if they are long.
	Texts            string            `json:",omitempty"`
	Description      string            `json:",omitempty"`
	Parameters       []parameterRecord `json:",omitempty"`
	Tags             []tagRecord       `json:",omitempty"`
	Capabilities     []string          `json:",omitempty"`
	NotificationARNs []string          `json:",omitempty"`
	Outputs          []outputRecord    `json:",omitempty"`
	Imports          []string          `json:",omitempty"` // names of exports
}

// A textRecord has long templates, which in a stack's record would slow down each of its changes.
type textRecord struct {
	Template  string
	Processed string `json:",omitempty"`
}

// An operationRecord is the last operation of a stack.
type operationRecord struct {
	ID    string
	Token string // ClientRequestToken, on every event
	// Caller and CalledVia identify the requester of the operation, on whose behalf its
	// calls are made.
	Caller    awsapi.Principal
	CalledVia []string `json:",omitempty"`
	// Host is where the request was sent to: URLs of templates may be below it.
	Host string `json:",omitempty"`
	// Fingerprint identifies the arguments of the request.
	Fingerprint string `json:",omitempty"`
	// ImportExisting is true if the stack takes over existing resources that its template names.
	ImportExisting bool `json:",omitempty"`
}

type parameterRecord struct {
	Name, Value string
	Resolved    string `json:",omitempty"` // the value in Parameter Store
	NoEcho      bool   `json:",omitempty"`
}

type tagRecord struct{ Key, Value string }

type outputRecord struct {
	Key, Value  string
	Description string `json:",omitempty"`
	Export      string `json:",omitempty"`
}

// A resourceRecord is a resource of a stack.
type resourceRecord struct {
	Stack, LogicalID, Type string
	Status                 cloudformationtypes.ResourceStatus
	Reason                 string `json:",omitempty"`
	// Failure is the evidence for Reason, if the resource has failed.
	Failure *failureRecord `json:",omitempty"`
	Changed time.Time
	resourceState
	// Step is the phase of an operation that last changed the resource.
	Step string `json:",omitempty"`
	// Old is the resource before the running or failed update, or nil if the update has not
	// changed it. Replaced is true if another physical resource takes its place.
	Old      *resourceState `json:",omitempty"`
	Replaced bool           `json:",omitempty"`
	// OldGone is true if the old resource was deleted before its replacement was created. Restored is true while a
	// rollback recreates it.
	OldGone  bool `json:",omitempty"`
	Restored bool `json:",omitempty"`
	// Undeclared is true if the version before the update does not have the resource, whose deletion had failed. A rollback
	// does not restore it, and cleans it up.
	Undeclared bool `json:",omitempty"`
	// Discarded are physical resources that are deleted when the operation cleans up.
	Discarded []discardRecord `json:",omitempty"`
	// Rolling is set while the instances of a group are being replaced.
	Rolling *rollingRecord `json:",omitempty"`
	// Invalid is true if its properties do not match the schema of its type.
	Invalid bool `json:",omitempty"`
}

// A resourceState is a physical resource.
type resourceState struct {
	PhysicalID          string   `json:",omitempty"`
	DependsOn           []string `json:",omitempty"`
	DeletionPolicy      string   `json:",omitempty"`
	UpdateReplacePolicy string   `json:",omitempty"`
	// UpdatePolicy says how the instances of a group are replaced.
	UpdatePolicy json.RawMessage `json:",omitempty"`
	Metadata     string          `json:",omitempty"`
	Tags         []tagRecord     `json:",omitempty"` // the stack's
	// Properties are the resolved properties that the resource was last created or updated with.
	Properties json.RawMessage `json:",omitempty"`
	Attributes json.RawMessage `json:",omitempty"`
	// Begun is true if a call that creates the resource may have been made. Token makes
	// that call idempotent, and Suffix is the random part of a name.
	Begun         bool   `json:",omitempty"`
	Token, Suffix string `json:",omitempty"`
	// Signals are the ones received so far, and Deadline is when all of them must have arrived.
	Signals  []signalRecord `json:",omitempty"`
	Deadline time.Time      `json:",omitzero"`
}

type signalRecord struct {
	ID      string
	Success bool
	// Reason and Data are only in signals to the handle of a wait condition.
	Reason string `json:",omitempty"`
	Data   string `json:",omitempty"`
}

// A rollingRecord is the state of a group before its instances are replaced.
type rollingRecord struct {
	Min, Desired int32
	Obsolete     []string
}

// A discardRecord is a physical resource that the stack no longer has.
type discardRecord struct {
	resourceState
	Retain bool `json:",omitempty"`
}

type eventRecord struct {
	ID                              string
	LogicalID, PhysicalID, Type     string
	Time                            time.Time
	Status, Reason, Detailed, Token string
	Properties                      string
	Operation                       string
	Failure                         *failureRecord `json:",omitempty"` // of a resource
}

// A failureRecord is the evidence for the failure of a resource.
type failureRecord struct {
	// Calls are the refused call and, if its service made it for another call, the calls that led to it,
	// the innermost first.
	Calls []callRecord `json:",omitempty"`
	// Code and Message are the error that the call returned.
	Code    string `json:",omitempty"`
	Message string `json:",omitempty"`
	// Instances are those that the resource had when it failed.
	Instances []string `json:",omitempty"`
	// Suffix is the random part of the resource's name, which differs at the next attempt.
	Suffix string `json:",omitempty"`
}

// A callRecord is a call to another service. Its request ID finds it in the journal.
type callRecord struct{ RequestID, Service, Operation string }

// A changeSetRecord is a proposed version of a stack.
type changeSetRecord struct {
	ID, Name, Stack string
	Type            cloudformationtypes.ChangeSetType
	Status          cloudformationtypes.ChangeSetStatus
	Reason          string `json:",omitempty"`
	// Execution stays EXECUTE_IN_PROGRESS once the change set has been executed: the
	// stack's status shows the rest.
	Execution   cloudformationtypes.ExecutionStatus
	Created     time.Time
	Description string `json:",omitempty"`
	versionRecord
	RoleARN        string          `json:",omitempty"`
	OnFailure      string          `json:",omitempty"`
	ImportExisting bool            `json:",omitempty"`
	Changes        []plannedChange `json:",omitempty"`
	Adopted        []adoptedRecord `json:",omitempty"` // of the type IMPORT
	// IncludeNested is true if nested stacks have change sets, too. Parent and Root are the ARNs of the parent's and the
	// root's change set, if this one is of a nested stack.
	IncludeNested      bool   `json:",omitempty"`
	Parent, Root       string `json:",omitempty"`
	Token, Fingerprint string `json:",omitempty"`
}

// A plannedChange is what a change set would change in a resource, with the properties
// before and after.
type plannedChange struct {
	cloudformationtypes.ResourceChange
}
