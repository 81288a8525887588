package authz

import (
	"slices"
	"strings"
)

// NotEvaluated lists, for docs/compatibility.md, the parts of IAM that are not evaluated here, and the effect.
var NotEvaluated = []struct{ What, Effect string }{
	{"AWS managed keys of KMS", "resource control policies restrict them too; on AWS they do not"},
	{"AWS service principals as grantees of KMS grants, the constraint SourceArn", "refused with 501"},
	{"resource-based policies of services whose operations are not handled", "the operations themselves answer 501"},
	{"the principal `CanonicalUser`", "matches no principal"},
	{"multi-factor authentication of root, hardware devices, passkeys", "only users can have MFA devices, and only virtual ones"},
	{"calls that AWS services make themselves", "no policy restricts a service that uses its service-linked role; when a service calls on a user's behalf, the user's policies apply, with `aws:CalledVia` and `aws:ViaAWSService`; but EKS looks up a user's subnets and security groups under its own role"},
	{"Access Analyzer", "not handled"},
}

// AbsentKeys are the global condition keys that no request has here.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_condition-keys.html
var AbsentKeys = []string{
	"aws:AssumedRoot", "aws:CalledViaAWSMCP", "aws:ChatbotSourceArn", "aws:IsMcpServiceAction",
	"aws:PrincipalServiceNamesList", "aws:SignInSessionArn", "aws:ViaAWSMCPService",
}

// impossible lists the keys that no request can have, because Drydock lacks what they describe: Outposts, IPAM, security
// keys, access points, attribute-based access control of buckets, elastic GPUs. A request for one of these gets a 501.
var impossible = []string{
	"autoscaling:capacityreservationids", "autoscaling:capacityreservationresourcegrouparns", "ec2:capacityreservationfleet", "ec2:elasticgputype",
	"ec2:ipamprefixlistresolvertargetid", "ec2:ipv4ipampoolid", "ec2:ipv6ipampoolid", "ec2:outpostarn", "ec2:sourceoutpostarn", "ec2:vpcemultiregion",
	"ec2:vpceprivatednspreference", "ec2:vpceprivatednsspecifieddomains", "iam:fido-certification", "iam:fido-fips-140-2-certification",
	"iam:fido-fips-140-3-certification", "iam:registersecuritykey", "s3:accesspointtag/${tagkey}", "s3:buckettag/${tagkey}", "ssm:accessrequestid",
}

// settled lists the keys whose values are found whenever a request has any: it lacks those that it does not set.
var settled = []string{"ec2:attribute", "ec2:attribute/${attributename}", "ec2:roledelivery", "eks:loggingtype/${type}"}

// storedKeys are the condition keys that services resolve from what they have stored or from the request, by IAM
// prefix and without that prefix. A test in internal/app compares them with the services' keys.
var storedKeys = map[string]string{
	"acm":             "certificateauthority certificatetransparencylogging domainnames export keyalgorithm validationmethod",
	"arc-zonal-shift": "resourceidentifier",
	"autoscaling":     "launchtemplateversionspecified",
	"ec2": `acceptervpc allocationid associatepublicipaddress attribute attribute/${attributename} authorizedservice authorizeduser availabilityzone availabilityzoneid
		cpuoptionsamdsevsnp createaction dhcpoptionsid domain ebsoptimized encrypted imageid imagetype
		instanceautorecovery instancebandwidthweighting instanceid instancemarkettype instancemetadatatags
		instanceprofile instancetype internetgatewayid islaunchtemplateresource keypairname keypairtype kmskeyid
		launchtemplate managedresourceoperator metadatahttpendpoint metadatahttpputresponsehoplimit metadatahttptokens
		networkaclid networkinterfaceid newinstanceprofile owner parentsnapshot parentvolume permission placementgroup placementgroupname placementgroupstrategy
		productcode public publicipaddress region requestervpc roledelivery rootdevicetype routetableid securitygroupid snapshotid
		snapshottime sourceinstancearn subnet subnetid tenancy
		transitgatewayattachmentid transitgatewayid transitgatewayroutetableid volumeid volumeinitializationrate
		volumeiops volumesize volumethroughput volumetype vpc vpceservicename vpceserviceowner vpceserviceregion vpcid vpcpeeringconnectionid`,
	"eks": "accessentrytype clustername kubernetesgroups loggingtype/${type} principalarn username",
	"events": "creatoraccount detail-type detail.eventtypecode detail.service detail.useridentity.principalid " +
		"eventbusinvocation managedby source targetarn",
	"iam": "passedtoservice permissionsboundary",
	"kms": `bypasspolicylockoutsafetycheck calleraccount customermasterkeyspec customermasterkeyusage datakeypairspec
		encryptionalgorithm encryptioncontext:${encryptioncontextkey} encryptioncontextkeys grantconstraintsourcearn grantconstrainttype
		granteeprincipal granteeserviceprincipal grantisforawsresource grantoperations keyagreementalgorithm keyorigin keyspec keyusage macalgorithm
		messagetype multiregion multiregionkeytype reencryptonsamekey requestalias resourcealiases retiringprincipal
		retiringserviceprincipal rotationperiodindays schedulekeydeletionpendingwindowindays signingalgorithm viaservice`,
	"route53": "changeresourcerecordsetsactions changeresourcerecordsetsnormalizedrecordnames changeresourcerecordsetsrecordtypes vpcs",
	"s3": `accessgrantsinstancearn accesspointnetworkorigin authtype dataaccesspointaccount dataaccesspointarn delimiter
		existingobjecttag/<key> if-match if-none-match locationconstraint max-keys object-lock-legal-hold object-lock-mode
		object-lock-remaining-retention-days object-lock-retain-until-date objectcreationoperation prefix requestobjecttag/<key>
		requestobjecttagkeys resourceaccount signatureage signatureversion tlsversion versionid x-amz-acl x-amz-bucket-namespace x-amz-content-sha256
		x-amz-copy-source x-amz-grant-full-control x-amz-grant-read x-amz-grant-read-acp x-amz-grant-write x-amz-grant-write-acp
		x-amz-metadata-directive x-amz-object-ownership x-amz-server-side-encryption x-amz-server-side-encryption-aws-kms-key-id
		x-amz-server-side-encryption-customer-algorithm x-amz-storage-class x-amz-website-redirect-location`,
	"secretsmanager": "addreplicaregions externalsecretrotationrolearn forceoverwritereplicasecret kmskeyarn modifyrotationrules resource/allowrotationlambdaarn resource/type secretid secretprimaryregion type",
	"ssm":            "documentcategories documenttype inventorytypename sessiondocumentaccesscheck resourcetag/aws:ssmmessages:session-id resourcetag/aws:ssmmessages:target-id",
	"sts":            "awsservicename",
}

// Unresolved lists the service's own condition keys, as AWS writes them, that the reference gives an operation whose
// input is of in's type, and that nothing resolves on any resource. A statement that uses one is undecided: it never
// allows, and always denies if it is a Deny.
func Unresolved(service, operation string, in any) []string {
	op := Prefix(service) + ":" + operation
	prefix, _ := split(op)
	c := Check{input: in}
	var ok bool
	if c.action, c.ref, ok = ActionOf(actionName(op)); !ok || strings.HasPrefix(op, "sts:AssumeRole") {
		return nil // STS provides all keys that there are
	}
	if c.action.Access == "Tagging" {
		return nil // it applies to every type of resource; other operations have the keys of the handled types
	}
	offered := slices.Clone(c.action.Keys)
	for i := range c.action.Types {
		c.typ, c.target.Type = &c.action.Types[i], c.action.Types[i].Name
		offered = append(offered, c.typeKeys()...)
	}
	var out []string
	for _, key := range unique(offered) {
		name, own := strings.CutPrefix(key, prefix+":")
		if !own || strings.HasPrefix(name, "resourcetag/") || strings.HasPrefix(name, "requesttag/") || strings.HasPrefix(name, "recipientattestation:") {
			continue // those of Nitro enclaves are absent, because there are no enclaves
		}
		values := map[string][]string{}
		if c.fromMember(values, prefix, key); len(values) > 0 || has(impossible, key) || slices.Contains(strings.Fields(storedKeys[prefix]), name) {
			continue
		}
		out = append(out, c.ref.Names[key])
	}
	return out
}

// StoredKeys returns the condition keys that the service with an IAM prefix resolves, without that prefix.
func StoredKeys(prefix string) []string { return strings.Fields(storedKeys[prefix]) }

// Resolved reports whether a global condition key has a value in requests.
func Resolved(key string) bool {
	return slices.ContainsFunc(globalNames, func(n string) bool { return strings.EqualFold(n, key) })
}
