package cloudformation

import (
	"encoding/json"
	"time"

	cloudformationtypes "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/store"
)

var (
	// stacks are called by the unique part of their ID: names are used again.
	stacks = store.NewCollection[stackRecord]("cloudformation", "stack")
	// resources are called STACK/LOGICAL, events STACK/NUMBER.
	resources = store.NewCollection[resourceRecord]("cloudformation", "resource")
	events    = store.NewCollection[eventRecord]("cloudformation", "event")
)

// A stackRecord is a stack, also one that was deleted.
type stackRecord struct {
	ID, Name          string
	Status            cloudformationtypes.StackStatus
	Reason            string `json:",omitempty"`
	Created           time.Time
	Deleted           time.Time `json:",omitzero"`
	Template          string
	Description       string            `json:",omitempty"`
	Parameters        []parameterRecord `json:",omitempty"`
	Tags              []tagRecord       `json:",omitempty"`
	Capabilities      []string          `json:",omitempty"`
	NotificationARNs  []string          `json:",omitempty"`
	OnFailure         string            // ROLLBACK, DELETE or DO_NOTHING
	Timeout           time.Duration     `json:",omitempty"`
	Protected         bool              `json:",omitempty"`
	Outputs           []outputRecord    `json:",omitempty"`
	Imports           []string          `json:",omitempty"` // names of exports
	Events            int64             // how many there have been
	RoleARN           string            `json:",omitempty"`
	Retain            []string          `json:",omitempty"` // of the running deletion
	Operation         operationRecord
	CreateToken       string `json:",omitempty"`
	CreateFingerprint string `json:",omitempty"`
}

// An operationRecord is the last operation of a stack.
type operationRecord struct {
	ID    string
	Token string // ClientRequestToken, on every event
	// Caller and CalledVia are who asked for it, as whom its calls are made.
	Caller    awsapi.Principal
	CalledVia []string `json:",omitempty"`
}

type parameterRecord struct {
	Name, Value string
	Resolved    string `json:",omitempty"` // of Parameter Store
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
	PhysicalID             string `json:",omitempty"`
	Status                 cloudformationtypes.ResourceStatus
	Reason                 string `json:",omitempty"`
	Changed                time.Time
	DependsOn              []string `json:",omitempty"`
	DeletionPolicy         string   `json:",omitempty"`
	Metadata               string   `json:",omitempty"`
	// Properties are those that the resource was created with, resolved.
	Properties json.RawMessage `json:",omitempty"`
	Attributes json.RawMessage `json:",omitempty"`
	// Begun says that a call that creates it may have been made. Token makes that call
	// repeatable, and Suffix is the random part of a name.
	Begun         bool   `json:",omitempty"`
	Token, Suffix string `json:",omitempty"`
	// Invalid says that its properties are not what its type has.
	Invalid bool `json:",omitempty"`
}

type eventRecord struct {
	ID                              string
	LogicalID, PhysicalID, Type     string
	Time                            time.Time
	Status, Reason, Detailed, Token string
	Properties                      string
	Operation                       string
}
