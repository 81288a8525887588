package authz

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/policy"
)

// global returns the condition keys that every request has, in lower case.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_condition-keys.html
//
// Keys on that page that are not in these maps are absent here. Those of organizations are added by control.
func global(call *awsapi.Call) map[string][]string {
	p := &call.Principal
	now := call.Time.UTC()
	keys := make(map[string][]string, 32)
	set := func(key, value string) {
		if value != "" {
			keys[key] = []string{value}
		}
	}
	set("aws:currenttime", now.Format(time.RFC3339))
	set("aws:epochtime", strconv.FormatInt(now.Unix(), 10))
	set("aws:requestedregion", call.Region)
	set("aws:securetransport", strconv.FormatBool(call.TLS))
	set("aws:useragent", call.UserAgent)
	set("aws:referer", call.Referer)
	if call.SourceIP.IsValid() {
		set("aws:sourceip", call.SourceIP.String())
	}
	set("aws:viaawsservice", strconv.FormatBool(len(call.CalledVia) > 0))
	if n := len(call.CalledVia); n > 0 {
		keys["aws:calledvia"] = call.CalledVia
		set("aws:calledviafirst", call.CalledVia[0])
		set("aws:calledvialast", call.CalledVia[n-1])
	}
	set("drydock:invokedby", call.InvokedBy) // for the policies of resources that a service operates
	set("aws:principalisawsservice", "false")
	if call.VPCEndpoint.ID != "" {
		set("aws:sourcevpce", call.VPCEndpoint.ID)
		set("aws:sourcevpc", call.VPCEndpoint.VPCID)
		set("aws:vpcsourceip", call.SourceIP.String())
		delete(keys, "aws:sourceip") // calls through an endpoint have no public address
	}
	if p.Type == awsapi.AWSService {
		set("aws:principalisawsservice", "true")
		set("aws:principalservicename", p.Name)
		set("aws:sourcearn", call.SourceARN)
		set("aws:sourceaccount", p.Account)
		return keys
	}
	if p.Account == "" {
		return keys // a web identity is not a principal of any account
	}
	set("aws:principalaccount", p.Account)
	set("aws:userid", p.UserID)
	set("aws:principalarn", p.ARN)
	switch p.Type {
	case awsapi.Root:
		set("aws:principaltype", "Account")
	case awsapi.IAMUser:
		set("aws:principaltype", "User")
		set("aws:username", p.Name)
	case awsapi.AssumedRole:
		set("aws:principaltype", "AssumedRole")
		set("aws:principalarn", p.RoleARN) // from the role, not from the session
	case awsapi.FederatedUser:
		set("aws:principaltype", "FederatedUser")
	default:
		set("aws:principaltype", string(p.Type))
	}
	set("aws:federatedprovider", p.FederatedProvider)
	set("ec2:sourceinstancearn", p.Instance.ARN)
	set("ec2:roledelivery", p.Instance.Delivery)
	set("aws:ec2instancesourcevpc", p.Instance.VPCID)
	set("aws:ec2instancesourceprivateipv4", p.Instance.PrivateIP)
	set("aws:sourceidentity", p.SourceIdentity)
	SetTags(keys, p.Tags, "aws:principaltag/")
	// For long-term keys AWS does not even say that there was no second factor.
	// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_condition-keys.html#condition-keys-multifactorauthpresent
	if !p.IssuedAt.IsZero() {
		set("aws:tokenissuetime", p.IssuedAt.UTC().Format(time.RFC3339))
		set("aws:multifactorauthpresent", "false")
	}
	if !p.MFAAt.IsZero() {
		set("aws:multifactorauthpresent", "true")
		set("aws:multifactorauthage", strconv.FormatInt(max(0, int64(now.Sub(p.MFAAt)/time.Second)), 10))
	}
	return keys
}

// SetTags sets the condition keys of tags under each of the prefixes. Condition keys are case-insensitive but tags
// are not: tags that differ only in case share a condition key, which then has the values of all of them.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_condition.html
func SetTags(values map[string][]string, tags map[string]string, prefixes ...string) {
	for _, tag := range slices.Sorted(maps.Keys(tags)) {
		for _, prefix := range prefixes {
			key := prefix + strings.ToLower(tag)
			values[key] = append(values[key], tags[tag])
		}
	}
}

// endpointKeys reports which keys about the VPC endpoint of a request, besides its ID and its VPC's ID, an action supports:
// aws:VpceOrgID only, or also aws:SourceVpcArn, aws:VpceAccount and aws:VpceOrgPaths.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_condition-keys.html#condition-keys-vpceaccount
func endpointKeys(action string) (org, all bool) {
	switch prefix, _ := split(action); prefix {
	case "cloudformation", "ecr", "iam", "kms", "route53", "s3", "servicequotas":
		supported := action != "iam:PassRole"
		return supported, supported
	case "pricing", "sqs":
		return true, false
	}
	return false, false
}

// context returns the condition keys of a check. Values holds those that are known. Unknown reports those that the
// reference gives the action on such a resource but that nothing here resolves.
func (c *Check) context(call *awsapi.Call) policy.Context {
	values := global(call)
	if c.stored.Account != "" {
		values["aws:resourceaccount"] = []string{c.stored.Account}
	} else if a, err := arn.Parse(c.Resource); err == nil && a.Account != "" && a.Account != "aws" {
		values["aws:resourceaccount"] = []string{a.Account}
	} else if c.Resource == "*" {
		values["aws:resourceaccount"] = []string{call.Account}
	}
	prefix, _ := split(c.Action)
	if e := call.VPCEndpoint; e.ID != "" {
		if _, all := endpointKeys(c.Action); all {
			values["aws:sourcevpcarn"] = []string{arn.New("ec2", e.Region, e.Account, "vpc/"+e.VPCID)}
			values["aws:vpceaccount"] = []string{e.Account}
		}
	}
	if c.offers("aws:resourcetag/${tagkey}") {
		SetTags(values, c.stored.Tags, "aws:resourcetag/", cmp.Or(c.rows.owners[prefix+"/"+c.target.Type], prefix)+":resourcetag/")
		if c.rows.owners[prefix+"/"+c.target.Type] != "" && c.offers(prefix+":resourcetag/${tagkey}") {
			SetTags(values, c.stored.Tags, prefix+":resourcetag/")
		}
	}
	if len(c.target.TagKeys) > 0 && c.offers("aws:tagkeys") {
		values["aws:tagkeys"] = slices.Sorted(slices.Values(c.target.TagKeys))
		SetTags(values, c.target.Tags, "aws:requesttag/", prefix+":requesttag/")
	}
	for _, list := range [][]string{c.actionKeys(), c.typeKeys()} {
		for _, key := range list {
			c.fromMember(values, prefix, key)
		}
	}
	switch prefix {
	case "ec2":
		c.fromEC2(values, call)
	case "autoscaling":
		// https://docs.aws.amazon.com/autoscaling/ec2/userguide/ec2-auto-scaling-launch-template-permissions.html
		if c.offers("autoscaling:launchtemplateversionspecified") {
			version := first(c.input, "LaunchTemplate.Version", "MixedInstancesPolicy.LaunchTemplate.LaunchTemplateSpecification.Version")
			values["autoscaling:launchtemplateversionspecified"] = []string{strconv.FormatBool(version != "" && version[0] != '$')}
		}
	case "eks":
		if c.offers("eks:loggingtype/api") {
			fromLogging(values, c.input)
		}
	}
	for k, v := range c.stored.Keys {
		if _, said := values[k]; c.offers(k) && (!said || c.target.Action != "") {
			values[k] = v
		}
	}
	for k, v := range c.target.Keys {
		values[k] = v
	}
	return policy.Context{Values: values, Unknown: func(key string) bool {
		if c.target.Costly[key] != nil {
			return true
		}
		if strings.HasPrefix(key, "aws:") || strings.Contains(key, ":resourcetag/") || strings.Contains(key, ":requesttag/") {
			return false
		}
		if c.target.AllKeys || has(c.rows.absentKeys, key) || has(settled, key) {
			return false
		}
		return has(c.actionKeys(), key) || has(c.typeKeys(), key)
	}}
}

func (c *Check) actionKeys() []string {
	if c.action == nil {
		return nil
	}
	return c.action.Keys
}

// typeKeys returns the keys that the action has for the check's type of resource. If the action's row lists none,
// they are those of the type itself.
func (c *Check) typeKeys() []string {
	switch {
	case c.typ != nil && len(c.typ.Keys) > 0:
		return c.typ.Keys
	case c.ref != nil && c.ref.Types[c.target.Type] != nil:
		return c.ref.Types[c.target.Type].Keys
	}
	return nil
}

// offers reports whether the action has a key on the check's resource.
func (c *Check) offers(key string) bool {
	return c.action == nil || has(c.actionKeys(), key) || has(c.typeKeys(), key) ||
		c.ref != nil && c.ref.Types[c.target.Type] != nil && has(c.ref.Types[c.target.Type].Keys, key)
}

// fromLogging resolves eks:loggingType/TYPE, which says whether a request turns a type of control plane log on or off.
func fromLogging(values map[string][]string, in any) {
	for _, setup := range member(in, "logging.clusterLogging") {
		for _, kind := range texts(setup.Interface(), "types") {
			values["eks:loggingtype/"+strings.ToLower(kind)] = texts(setup.Interface(), "enabled")
		}
	}
}

// fromEC2 resolves keys of EC2 that have the same meaning for every operation.
func (c *Check) fromEC2(values map[string][]string, call *awsapi.Call) {
	values["ec2:region"] = []string{call.Region}
	if c.offers("ec2:attribute/${attributename}") {
		fromAttributes(values, c.input)
	}
	if c.offers("ec2:newinstanceprofile") {
		if profile := first(c.input, "IamInstanceProfile.Arn", "IamInstanceProfile.Name"); strings.HasPrefix(profile, "arn:") {
			values["ec2:newinstanceprofile"] = []string{profile}
		} else if profile != "" {
			values["ec2:newinstanceprofile"] = []string{arn.New("iam", "", call.Account, "instance-profile/"+profile)}
		}
	}
	if c.target.ID != "" && !c.target.New {
		return
	}
	// A resource that is being created has no ID yet; the request says where it will be.
	for key, member := range map[string]string{"ec2:vpc": "VpcId", "ec2:subnet": "SubnetId"} {
		if id := first(c.input, member); id != "" && c.offers(key) {
			values[key] = []string{arn.New("ec2", call.Region, call.Account, strings.TrimPrefix(key, "ec2:")+"/"+id)}
		}
	}
	if c.offers("ec2:acceptervpc") {
		if peer := first(c.input, "PeerVpcId"); peer != "" {
			region, account := cmp.Or(first(c.input, "PeerRegion"), call.Region), cmp.Or(first(c.input, "PeerOwnerId"), call.Account)
			values["ec2:acceptervpc"] = []string{arn.New("ec2", region, account, "vpc/"+peer)}
			values["ec2:requestervpc"] = []string{arn.New("ec2", call.Region, call.Account, "vpc/"+first(c.input, "VpcId"))}
		}
	}
	if c.offers("ec2:vpceserviceowner") {
		values["ec2:vpceserviceowner"] = []string{"amazon"} // there are no other services
		values["ec2:vpceserviceregion"] = []string{cmp.Or(first(c.input, "ServiceRegion"), call.Region)}
	}
	for _, key := range c.typeKeys() {
		if _, said := values[key]; !said && strings.HasSuffix(key, "id") && strings.HasPrefix(key, "ec2:") {
			values[key] = nil
		}
	}
	if _, said := values["ec2:managedresourceoperator"]; !said {
		values["ec2:managedresourceoperator"] = nil // there are no resources that AWS manages for users
	}
}

// notAttributes are the members of modifying requests of EC2 that no condition key is about. Those whose names end in
// Id say what is modified.
var notAttributes = []string{"dryrun", "clienttoken", "attribute", "value", "operationtype"}

// fromAttributes resolves ec2:Attribute, the names of the attributes that a request sets, and ec2:Attribute/NAME,
// their values: ec2:Attribute/HttpTokens is required.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ExamplePolicies_EC2.html#iam-example-instance-metadata
func fromAttributes(values map[string][]string, in any) {
	if name := first(in, "Attribute"); name != "" {
		values["ec2:attribute"], values["ec2:attribute/"+strings.ToLower(name)] = []string{name}, texts(in, "Value")
		return
	}
	v := reflect.Indirect(reflect.ValueOf(in))
	if v.Kind() != reflect.Struct {
		return
	}
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if !f.IsExported() || v.Field(i).IsZero() || strings.HasSuffix(f.Name, "Id") || slices.Contains(notAttributes, strings.ToLower(f.Name)) {
			continue
		}
		set := texts(in, f.Name)
		if len(set) == 0 {
			set = texts(in, f.Name+".Value") // AttributeBooleanValue and the like
		}
		values["ec2:attribute"] = append(values["ec2:attribute"], f.Name)
		values["ec2:attribute/"+strings.ToLower(f.Name)] = set
	}
}

// fromMember resolves a key of the service that the request contains: in a member with the key's name, or in the one
// that a row names.
func (c *Check) fromMember(values map[string][]string, prefix, key string) {
	name, ok := strings.CutPrefix(key, prefix+":")
	if !ok || strings.Contains(name, "${") || c.target.Action != "" {
		return // members of dependent actions are not in this request
	}
	if paths, overlaid := c.rows.keyMembers[key]; overlaid {
		for path := range strings.SplitSeq(paths, "|") {
			if root, _, _ := strings.Cut(path, "."); hasMember(c.input, root) {
				values[key] = texts(c.input, path)
				return
			}
		}
	}
	if hasMember(c.input, name) {
		values[key] = texts(c.input, name)
	}
}

// globalNames are the global condition keys as AWS writes them.
var globalNames = []string{
	"aws:CurrentTime", "aws:Ec2InstanceSourcePrivateIPv4", "aws:Ec2InstanceSourceVpc", "aws:EpochTime", "aws:FederatedProvider", "aws:MultiFactorAuthAge", "aws:MultiFactorAuthPresent", "aws:PrincipalAccount", "aws:PrincipalArn",
	"aws:PrincipalIsAWSService", "aws:PrincipalTag", "aws:PrincipalType", "aws:Referer", "aws:RequestTag", "aws:RequestedRegion", "aws:ResourceAccount",
	"aws:ResourceTag", "aws:SecureTransport", "aws:SourceIdentity", "aws:SourceIp", "aws:SourceVpc", "aws:SourceVpcArn", "aws:SourceVpce", "aws:TagKeys",
	"aws:TokenIssueTime", "aws:UserAgent", "aws:ViaAWSService", "aws:VpcSourceIp", "aws:VpceAccount", "aws:VpceOrgID", "aws:VpceOrgPaths", "aws:userid", "aws:username",
}

// name returns a condition key as AWS writes it, keeping the case of a tag's key.
func (c *Check) name(key string) string {
	base, tag, tagged := strings.Cut(key, "/")
	out := base
	if i := slices.IndexFunc(globalNames, func(n string) bool { return strings.EqualFold(n, base) }); i >= 0 {
		out = globalNames[i]
	} else if c.ref != nil {
		for _, k := range []string{key, base, base + "/${tagkey}"} {
			if n, ok := c.ref.Names[k]; ok {
				out, _, _ = strings.Cut(n, "/")
				break
			}
		}
	}
	if !tagged {
		return out
	}
	for _, tags := range []map[string]string{c.target.Tags, c.stored.Tags} {
		for k := range tags {
			if strings.EqualFold(k, tag) {
				return out + "/" + k
			}
		}
	}
	return out + "/" + tag
}
