package iam

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"

	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/policy"
	"github.com/drydock-dev/drydock/internal/store"
)

// accessReports are the reports of when principals last called services, by job ID.
var accessReports = store.NewCollection[accessReport]("iam", "access-report")

const (
	// reportsKept is how long a report can be read.
	// https://docs.aws.amazon.com/IAM/latest/APIReference/API_GenerateServiceLastAccessedDetails.html
	reportsKept = 7 * 24 * time.Hour
	// An account keeps this many reports, and fewer if they have this many rows (see rows). Then the oldest go, unlike on AWS.
	maxReports    = 500
	maxReportRows = 200_000
	// reportsPerWrite limits the size of a transaction.
	reportsPerWrite = 50
)

// An accessReport lists the services that the policies of an entity allow, and who called them last.
type accessReport struct {
	Created  time.Time
	Services []string               // namespaces, sorted
	Entities []accessEntity         // that the policies apply to, sorted by ARN
	Uses     map[string][]accessUse // by namespace, latest first
}

type accessEntity struct {
	ARN, ID, Name, Path string
	Type                iamtypes.PolicyOwnerEntityType
}

// An accessUse is the last call of a service by an entity. A report can have one for each service and entity, hence the short names.
type accessUse struct {
	Entity int    `json:"e"` // index of the report's entities
	Time   int64  `json:"t"` // in seconds of Unix time
	Region string `json:"r"`
}

func (u accessUse) time() *time.Time { return aws.Time(time.Unix(u.Time, 0).UTC()) }

// rows measures a report.
func (r *accessReport) rows() int {
	n := len(r.Services) + len(r.Entities)
	for _, of := range r.Uses {
		n += len(of)
	}
	return n
}

// serviceNames are the names of services in reports.
// https://docs.aws.amazon.com/service-authorization/latest/reference/reference_policies_actions-resources-contextkeys.html
var serviceNames = map[string]string{
	"acm": "AWS Certificate Manager", "arc-zonal-shift": "Amazon Application Recovery Controller - Zonal Shift", "autoscaling": "Amazon EC2 Auto Scaling",
	"cloudformation": "AWS CloudFormation", "cloudtrail": "AWS CloudTrail", "ec2": "Amazon EC2", "ec2-instance-connect": "Amazon EC2 Instance Connect",
	"ec2messages": "Amazon Message Delivery Service", "ecr": "Amazon Elastic Container Registry", "ecr-public": "Amazon Elastic Container Registry Public",
	"eks": "Amazon Elastic Kubernetes Service", "eks-auth": "Amazon EKS Auth", "elasticloadbalancing": "AWS Elastic Load Balancing", "events": "Amazon EventBridge",
	"iam": "AWS Identity and Access Management", "kms": "AWS Key Management Service", "logs": "Amazon CloudWatch Logs", "organizations": "AWS Organizations",
	"pricing": "AWS Price List", "route53": "Amazon Route 53", "s3": "Amazon S3", "secretsmanager": "AWS Secrets Manager", "servicequotas": "AWS Service Quotas",
	"shield": "AWS Shield", "sns": "Amazon SNS", "sqs": "Amazon SQS", "ssm": "AWS Systems Manager", "ssmmessages": "Amazon Session Manager Message Gateway Service",
	"sts": "AWS Security Token Service", "tag": "Amazon Resource Group Tagging API", "waf-regional": "AWS WAF Regional", "wafv2": "AWS WAF V2",
}

// accessKeyFor is the key under which the last call of a service by a user or role with a unique ID is recorded.
func accessKeyFor(account, id, service string) store.Key {
	return store.Key{Account: account, ID: "service/" + id + "/" + service}
}

// GenerateServiceLastAccessedDetails writes a report of the services that the policies of a user, group, role or policy allow, and of
// when they were last called. The report is complete at once. Unlike on AWS, it has only services that Drydock knows or that the
// policies name.
func (s *Service) GenerateServiceLastAccessedDetails(ctx context.Context, in *awsiam.GenerateServiceLastAccessedDetailsInput) (*awsiam.GenerateServiceLastAccessedDetailsOutput, error) {
	if in.Granularity == iamtypes.AccessAdvisorUsageGranularityTypeActionLevel {
		return nil, awserr.NotImplemented("reports of last accessed actions (ACTION_LEVEL)")
	}
	acct := awsapi.CallFrom(ctx).Account
	allowed, entities, err := s.accessOf(acct, *in.Arn)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(entities, func(a, b accessEntity) int { return strings.Compare(a.ARN, b.ARN) })
	report := accessReport{Created: s.now(), Services: allowedServices(allowed), Entities: entities, Uses: map[string][]accessUse{}}
	for _, ns := range report.Services {
		for i, e := range entities {
			if u, ok := s.lastUse(accessKeyFor(acct, e.ID, ns), e.ID); ok {
				report.Uses[ns] = append(report.Uses[ns], accessUse{Entity: i, Time: u.Time.Unix(), Region: u.Region})
			}
		}
		slices.SortStableFunc(report.Uses[ns], func(a, b accessUse) int { return cmp.Compare(b.Time, a.Time) })
	}
	id := ids.UUID()
	err = s.store.Update(ctx, func(tx *store.Tx) error {
		s.dropReports(tx, acct, report.rows())
		return accessReports.Put(tx, store.Key{Account: acct, ID: id}, report)
	})
	if err != nil {
		return nil, err
	}
	return &awsiam.GenerateServiceLastAccessedDetailsOutput{JobId: &id}, nil
}

// dropReports deletes expired reports, and the oldest ones if a new report would exceed the limit.
func (s *Service) dropReports(tx *store.Tx, account string, rows int) {
	reports := accessReports.All(tx, within(account))
	slices.SortFunc(reports, func(a, b store.Item[accessReport]) int {
		return cmp.Or(b.Value.Created.Compare(a.Value.Created), cmp.Compare(b.Revision, a.Revision))
	})
	dropped := 0
	for i, old := range reports {
		rows += old.Value.rows()
		if i < maxReports-1 && rows <= maxReportRows && s.now().Sub(old.Value.Created) < reportsKept {
			continue
		}
		if dropped++; dropped > reportsPerWrite {
			return
		}
		accessReports.Delete(tx, old.Key)
	}
}

// accessOf returns the policies of an entity or a managed policy, and the users and roles that have them.
func (s *Service) accessOf(account, entityARN string) ([]policy.Source, []accessEntity, error) {
	var list []accessEntity
	add := func(k ownerKind, id *identity, arnOf string) {
		e := accessEntity{ARN: arnOf, ID: id.ID, Name: id.Name, Path: id.Path, Type: iamtypes.PolicyOwnerEntityTypeRole}
		if k == ofUser {
			e.Type = iamtypes.PolicyOwnerEntityTypeUser
		}
		list = append(list, e)
	}
	if strings.Contains(entityARN, ":policy/") {
		if err := checkManaged(s.store, account, entityARN, noSuchPolicy); err != nil {
			return nil, nil, err
		}
		for _, r := range roles.All(s.store, within(account)) {
			if slices.Contains(r.Value.Attached, entityARN) {
				add(ofRole, &r.Value.identity, r.Value.arn(account))
			}
		}
		for _, u := range users.All(s.store, within(account)) {
			has := slices.Contains(u.Value.Attached, entityARN)
			for _, name := range u.Value.Groups {
				g, err := groups.Get(s.store, nameKey(account, name))
				has = has || err == nil && slices.Contains(g.Attached, entityARN)
			}
			if has {
				add(ofUser, &u.Value.identity, u.Value.arn(account))
			}
		}
		return []policy.Source{s.managed(account, entityARN)}, list, nil
	}
	e, err := s.entity(account, entityARN)
	if err != nil {
		return nil, nil, err
	}
	_, _, name, _ := arnName(entityARN, strings.Split(entityARN[strings.LastIndexByte(entityARN, ':')+1:], "/")[0])
	switch {
	case strings.Contains(entityARN, ":user/"):
		u, err := users.Get(s.store, nameKey(account, name))
		if err != nil {
			return nil, nil, store.NotFoundAs(err, noSuchUser(name))
		}
		add(ofUser, &u.identity, u.arn(account))
	case strings.Contains(entityARN, ":role/"):
		r, err := roles.Get(s.store, nameKey(account, name))
		if err != nil {
			return nil, nil, store.NotFoundAs(err, noSuchRole(name))
		}
		add(ofRole, &r.identity, r.arn(account))
	default:
		for _, u := range groupMembers(s.store, account, name) {
			add(ofUser, &u.Value.identity, u.Value.arn(account))
		}
	}
	return e.policies.Identity, list, nil
}

// allowedServices returns the namespaces of the services of which the policies allow any action: those that Drydock knows, and those
// that the policies name.
func allowedServices(policies []policy.Source) []string {
	known := authz.Prefixes()
	for _, p := range policies {
		for _, st := range p.Document.Statements {
			for _, action := range st.Actions {
				if ns, _, _ := strings.Cut(strings.ToLower(action), ":"); !st.Deny && !strings.ContainsAny(ns, "*?") {
					known = append(known, ns)
				}
			}
		}
	}
	slices.Sort(known)
	return slices.DeleteFunc(slices.Compact(known), func(ns string) bool {
		return !slices.ContainsFunc(policies, func(p policy.Source) bool { return allowsService(p.Document, ns) })
	})
}

// accessReport returns the report of a job.
func (s *Service) accessReport(ctx context.Context, job string) (accessReport, error) {
	r, err := accessReports.Get(s.store, store.Key{Account: awsapi.CallFrom(ctx).Account, ID: job})
	if err == nil && s.now().Sub(r.Created) >= reportsKept {
		err = store.ErrNotFound
	}
	return r, store.NotFoundAs(err, &iamtypes.NoSuchEntityException{Message: aws.String(fmt.Sprintf("The job id %s does not exist.", job))}) // our own text
}

// GetServiceLastAccessedDetails returns a report: for each service, which principal called it last.
func (s *Service) GetServiceLastAccessedDetails(ctx context.Context, in *awsiam.GetServiceLastAccessedDetailsInput) (*awsiam.GetServiceLastAccessedDetailsOutput, error) {
	r, err := s.accessReport(ctx, *in.JobId)
	if err != nil {
		return nil, err
	}
	p, err := paginate(r.Services, func(ns string) string { return ns }, in.Marker, in.MaxItems)
	if err != nil {
		return nil, err
	}
	out := &awsiam.GetServiceLastAccessedDetailsOutput{
		JobStatus: iamtypes.JobStatusTypeCompleted, JobType: iamtypes.AccessAdvisorUsageGranularityTypeServiceLevel, JobCreationDate: &r.Created, JobCompletionDate: &r.Created,
		ServicesLastAccessed: []iamtypes.ServiceLastAccessed{}, IsTruncated: p.truncated, Marker: p.marker,
	}
	for _, ns := range p.items {
		uses := r.Uses[ns]
		one := iamtypes.ServiceLastAccessed{ServiceNamespace: &ns, ServiceName: aws.String(serviceName(ns)), TotalAuthenticatedEntities: aws.Int32(int32(len(uses)))} //nolint:gosec // a few thousand
		if len(uses) > 0 {
			last := uses[0]
			one.LastAuthenticated, one.LastAuthenticatedEntity, one.LastAuthenticatedRegion = last.time(), &r.Entities[last.Entity].ARN, &last.Region
		}
		out.ServicesLastAccessed = append(out.ServicesLastAccessed, one)
	}
	return out, nil
}

func serviceName(namespace string) string {
	if name, ok := serviceNames[namespace]; ok {
		return name
	}
	return namespace
}

// GetServiceLastAccessedDetailsWithEntities returns, of one service in a report, when each principal called it last.
func (s *Service) GetServiceLastAccessedDetailsWithEntities(ctx context.Context, in *awsiam.GetServiceLastAccessedDetailsWithEntitiesInput) (*awsiam.GetServiceLastAccessedDetailsWithEntitiesOutput, error) {
	r, err := s.accessReport(ctx, *in.JobId)
	if err != nil {
		return nil, err
	}
	ns := strings.ToLower(*in.ServiceNamespace)
	entities, last := []accessEntity(nil), map[string]*time.Time{}
	if slices.Contains(r.Services, ns) {
		entities = r.Entities
		for _, u := range r.Uses[ns] {
			last[entities[u.Entity].ID] = u.time()
		}
	}
	p, err := paginate(entities, func(e accessEntity) string { return e.ARN }, in.Marker, in.MaxItems)
	if err != nil {
		return nil, err
	}
	out := &awsiam.GetServiceLastAccessedDetailsWithEntitiesOutput{
		JobStatus: iamtypes.JobStatusTypeCompleted, JobCreationDate: &r.Created, JobCompletionDate: &r.Created,
		EntityDetailsList: []iamtypes.EntityDetails{}, IsTruncated: p.truncated, Marker: p.marker,
	}
	for _, e := range p.items {
		out.EntityDetailsList = append(out.EntityDetailsList, iamtypes.EntityDetails{
			EntityInfo:        &iamtypes.EntityInfo{Arn: aws.String(e.ARN), Id: aws.String(e.ID), Name: aws.String(e.Name), Path: aws.String(e.Path), Type: e.Type},
			LastAuthenticated: last[e.ID],
		})
	}
	return out, nil
}

// SetSecurityTokenServicePreferences sets the version of tokens from STS's global endpoint. Tokens of version 1 are valid only in regions
// that are enabled by default. All regions are, here.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/id_credentials_temp_enable-regions.html
func (s *Service) SetSecurityTokenServicePreferences(ctx context.Context, in *awsiam.SetSecurityTokenServicePreferencesInput) (*awsiam.SetSecurityTokenServicePreferencesOutput, error) {
	acct := awsapi.CallFrom(ctx).Account
	if err := s.EnsureAccount(ctx, acct); err != nil {
		return nil, err
	}
	return &awsiam.SetSecurityTokenServicePreferencesOutput{}, s.store.Update(ctx, func(tx *store.Tx) error {
		return accounts.Update(tx, store.Key{Account: acct, ID: accountID}, func(a *account) error {
			a.TokensV2 = in.GlobalEndpointTokenVersion == iamtypes.GlobalEndpointTokenVersionV2Token
			return nil
		})
	})
}
