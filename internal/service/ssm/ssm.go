// Package ssm implements six parts of Systems Manager. Parameter Store has an account's own parameters, and the public ones
// below /aws/service for machine images (catalog/images) and regions. SecureString parameters are encrypted with KMS, using
// AWS's alias/aws/ssm or customer managed keys. Session Manager opens sessions on instances whose agents are connected
// (agents.go, sessions.go, live.go), and Run Command runs scripts on them (commands.go). Documents (documents.go) define
// sessions and commands. State Manager runs commands on a schedule (associations.go). Inventory (inventory.go) describes
// instances; agents collect it (actions.go). Only the composition root imports the package.
package ssm

import (
	"cmp"
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/catalog/images"
	timing "github.com/drydock-dev/drydock/internal/clock"
	"github.com/drydock-dev/drydock/internal/store"
)

// Config is what the service needs.
type Config struct {
	Store *store.Store
	// Image reports whether a region has an image, for parameters of the data type aws:ec2:image.
	// nil means that only public images exist.
	Image func(ctx context.Context, account, region, id string) (bool, error)
	// KMS encrypts SecureStrings as the caller of ctx. If it is nil, the service uses a key of its
	// own as alias/aws/ssm, and there are no other keys.
	KMS KMS
	// Secrets reads secrets as the caller of ctx. It is required if parameters refer to secrets.
	Secrets Secrets
	// Logs and S3 take the logs of sessions and the output of commands. They are required if preferences or commands use
	// them.
	Logs Logs
	S3   S3
	// SNS takes the notifications of commands, and Assume returns a session of a role that was passed for them. It returns
	// an error if the role does not exist or does not trust the service. They are required if commands have notifications.
	SNS    SNS
	Assume func(ctx context.Context, roleARN string) (awsapi.Principal, error)
	// Inventory is the service itself, which agents call as the instance's role.
	Inventory Inventory
	// Allowed reports whether the caller of ctx is allowed the action of a target, given the resource's attributes. Nil
	// allows everything.
	Allowed func(ctx context.Context, t authz.Target, as authz.Resource) bool
	// Fleet has the instances; nil means none. Module replaces it with the daemon's.
	Fleet Fleet
	// EndpointURL is the URL of the AWS endpoint, where clients open data channels.
	EndpointURL string
	Clock       clock.WithTicker // nil means the real clock
	Log         *slog.Logger
}

// Service is the Systems Manager service.
type Service struct {
	store *store.Store
	image func(ctx context.Context, account, region, id string) (bool, error)
	kms   KMS
	vault Secrets
	logs  Logs
	s3    S3
	sns   SNS
	clock clock.WithTicker

	assume    func(ctx context.Context, roleARN string) (awsapi.Principal, error)
	inventory Inventory

	allowed func(ctx context.Context, t authz.Target, as authz.Resource) bool

	log *slog.Logger

	fleet    Fleet
	endpoint string

	mu      sync.Mutex
	seen    map[scope]map[string]time.Time // when the agent of each running instance was last connected
	live    map[string]*live               // sessions by ID
	cancels map[string]runningCommand      // by ID
	running int                            // the number of invocations of these commands
	ending  bool                           // the daemon is shutting down, so nothing new starts
	working sync.WaitGroup
}

// New returns the service.
func New(cfg Config) *Service {
	s := &Service{
		store: cfg.Store, image: cfg.Image, kms: cfg.KMS, vault: cfg.Secrets, logs: cfg.Logs, s3: cfg.S3, sns: cfg.SNS, assume: cfg.Assume, inventory: cfg.Inventory, allowed: cfg.Allowed, clock: cmp.Or[clock.WithTicker](cfg.Clock, clock.RealClock{}),
		log: cmp.Or(cfg.Log, slog.Default()), fleet: cmp.Or[Fleet](cfg.Fleet, noFleet{}), endpoint: cfg.EndpointURL, seen: map[scope]map[string]time.Time{}, live: map[string]*live{}, cancels: map[string]runningCommand{},
	}
	if s.image == nil {
		s.image = func(_ context.Context, _, region, id string) (bool, error) {
			_, ok := images.ByID(region, id)
			return ok, nil
		}
	}
	return s
}

// AWS returns the service's registration with the AWS API server.
func (s *Service) AWS() awsapi.Service {
	return awsapi.Service{
		Name:          "ssm",
		Handler:       s,
		Authorization: authorization,
		Constraints:   constraints,
		Operations: []awsapi.Operation{
			{Name: "GetParameter", Members: "Name WithDecryption"},
			{Name: "GetParameters", Members: "Names WithDecryption"},
			{Name: "GetParametersByPath", Members: "MaxResults NextToken ParameterFilters Path Recursive WithDecryption"},
			{Name: "GetParameterHistory", Members: "MaxResults Name NextToken WithDecryption"},
			{Name: "PutParameter", Members: "AllowedPattern DataType Description KeyId Name Overwrite Policies Tags Tier Type Value"},
			{Name: "LabelParameterVersion", Members: "Labels Name ParameterVersion"},
			{Name: "UnlabelParameterVersion", Members: "Labels Name ParameterVersion"},
			{Name: "DeleteParameter", Members: "Name"},
			{Name: "DeleteParameters", Members: "Names"},
			{Name: "DescribeParameters", Members: "MaxResults NextToken ParameterFilters Shared"},
			{Name: "AddTagsToResource", Members: "ResourceId ResourceType Tags"},
			{Name: "RemoveTagsFromResource", Members: "ResourceId ResourceType TagKeys"},
			{Name: "ListTagsForResource", Members: "ResourceId ResourceType"},
			{Name: "DescribeInstanceInformation", Members: "Filters InstanceInformationFilterList MaxResults NextToken", Except: "filters other than InstanceIds, AgentVersion, PingStatus, PlatformTypes, ResourceType and tags"},
			{Name: "GetConnectionStatus", Members: "Target"},
			{Name: "StartSession", Members: "DocumentName Parameters Reason Target"},
			{Name: "GetServiceSetting", Members: "SettingId", Except: "settings other than that of default host management"},
			{Name: "UpdateServiceSetting", Members: "SettingId SettingValue", Except: "as above"},
			{Name: "ResetServiceSetting", Members: "SettingId", Except: "as above"},
			{Name: "CreateDocument", Members: "Content DisplayName DocumentFormat DocumentType Name Tags TargetType VersionName", Except: "types other than Command and Session, the format TEXT, and actions of Command documents other than aws:runShellScript, aws:softwareInventory and aws:updateSsmAgent"},
			{Name: "GetDocument", Members: "DocumentFormat DocumentVersion Name VersionName"},
			{Name: "DescribeDocument", Members: "DocumentVersion Name VersionName"},
			{Name: "ListDocuments", Members: "DocumentFilterList Filters MaxResults NextToken"},
			{Name: "ListDocumentVersions", Members: "MaxResults Name NextToken"},
			{Name: "UpdateDocument", Members: "Content DisplayName DocumentFormat DocumentVersion Name TargetType VersionName", Except: "as for CreateDocument"},
			{Name: "UpdateDocumentDefaultVersion", Members: "DocumentVersion Name"},
			{Name: "DeleteDocument", Members: "DocumentVersion Force Name VersionName"},
			{Name: "ModifyDocumentPermission", Members: "AccountIdsToAdd AccountIdsToRemove Name PermissionType"},
			{Name: "DescribeDocumentPermission", Members: "MaxResults Name NextToken PermissionType"},
			{Name: "ResumeSession", Members: "SessionId"},
			{Name: "TerminateSession", Members: "SessionId"},
			{Name: "SendCommand", Members: "CloudWatchOutputConfig Comment DocumentName DocumentVersion InstanceIds MaxConcurrency MaxErrors NotificationConfig OutputS3BucketName OutputS3KeyPrefix OutputS3Region Parameters ServiceRoleArn Targets TimeoutSeconds", Except: "AWS's documents other than AWS-RunShellScript and AWS-UpdateSSMAgent"},
			{Name: "CancelCommand", Members: "CommandId InstanceIds"},
			{Name: "GetCommandInvocation", Members: "CommandId InstanceId PluginName"},
			{Name: "ListCommands", Members: "CommandId Filters InstanceId MaxResults NextToken"},
			{Name: "ListCommandInvocations", Members: "CommandId Details Filters InstanceId MaxResults NextToken"},
			{Name: "CreateAssociation", Members: "ApplyOnlyAtCronInterval AssociationName ComplianceSeverity DocumentVersion InstanceId MaxConcurrency MaxErrors Name OutputLocation Parameters ScheduleExpression ScheduleOffset SyncCompliance Tags Targets", Except: "Automation documents, and AWS's documents other than AWS-RunShellScript, AWS-GatherSoftwareInventory and AWS-UpdateSSMAgent. ComplianceSeverity and SyncCompliance are stored but have no effect, and runs send no events to EventBridge"},
			{Name: "DescribeAssociation", Members: "AssociationId AssociationVersion InstanceId Name"},
			{Name: "UpdateAssociation", Members: "ApplyOnlyAtCronInterval AssociationId AssociationName AssociationVersion ComplianceSeverity DocumentVersion MaxConcurrency MaxErrors Name OutputLocation Parameters ScheduleExpression ScheduleOffset SyncCompliance Targets", Except: "as for CreateAssociation"},
			{Name: "DeleteAssociation", Members: "AssociationId InstanceId Name"},
			{Name: "ListAssociations", Members: "AssociationFilterList MaxResults NextToken", Except: "the filter ResourceGroupName"},
			{Name: "ListAssociationVersions", Members: "AssociationId MaxResults NextToken"},
			{Name: "StartAssociationsOnce", Members: "AssociationIds"},
			{Name: "DescribeAssociationExecutions", Members: "AssociationId Filters MaxResults NextToken"},
			{Name: "DescribeAssociationExecutionTargets", Members: "AssociationId ExecutionId Filters MaxResults NextToken"},
			{Name: "DescribeInstanceAssociationsStatus", Members: "InstanceId MaxResults NextToken"},
			{Name: "DescribeEffectiveInstanceAssociations", Members: "InstanceId MaxResults NextToken"},
			{Name: "PutInventory", Members: "InstanceId Items", Except: "the context of items"},
			{Name: "ListInventoryEntries", Members: "Filters InstanceId MaxResults NextToken TypeName"},
			{Name: "GetInventory", Members: "Filters MaxResults NextToken ResultAttributes", Except: "aggregators"},
			{Name: "GetInventorySchema", Members: "MaxResults NextToken TypeName"},
			{Name: "DeleteInventory", Members: "ClientToken DryRun SchemaDeleteOption TypeName", Except: "DisableSchema"},
			{Name: "DescribeSessions", Members: "Filters MaxResults NextToken State"},
		},
	}
}

type scope struct{ regional.Scope }

func scopeOf(ctx context.Context) scope { return scope{regional.Of(ctx)} }

func (sc scope) arn(name string) string {
	account := sc.Account
	if strings.HasPrefix(name, publicPrefix) {
		account = "" // public parameters do not belong to an account
	}
	return arn.New("ssm", sc.Region, account, "parameter/"+strings.TrimPrefix(name, "/"))
}

func (s *Service) now() time.Time { return timing.Stamp(s.clock) }
