package wire

import (
	"encoding/base64"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/drydock-dev/drydock/internal/awsapi/model"
)

// TrailRequest returns the members of in, the SDK's input struct of op, as CloudTrail shows them in
// requestParameters: values for encoding/json, nil for null. Secrets are left out, or replaced if CloudTrail shows a
// text in their place.
func TrailRequest(op *model.Operation, in any) any {
	t := trailer{op: op, request: true, style: trailStyleOf(op)}
	members := t.root(op.Input, in)
	switch t.style {
	case trailWrapped:
		return map[string]any{op.Name + "Request": orEmptyText(members)}
	case trailFlat:
		for name, v := range trailDefaults[op.Name] {
			if _, ok := members[name]; !ok {
				members[name] = v
			}
		}
		if op.Name == "RunInstances" {
			liftInstances(members)
		}
	}
	return orNull(members)
}

// TrailResponse is TrailRequest for responseElements: out is the SDK's output struct.
func TrailResponse(op *model.Operation, out any, requestID string) any {
	t := trailer{op: op, style: trailStyleOf(op)}
	members := t.root(op.Output, out)
	void := op.Output == nil || len(op.Output.Members) == 0
	switch t.style {
	case trailWrapped:
		if void {
			members["return"] = true
		}
		members["xmlns"], members["requestId"] = op.Service.XMLNamespace+"/", requestID
		return map[string]any{op.Name + "Response": members}
	case trailFlat:
		if void {
			members["_return"] = true
		}
		members["requestId"] = requestID
	}
	return orNull(members)
}

func orNull(members map[string]any) any {
	if len(members) == 0 {
		return nil
	}
	return members
}

func orEmptyText(members map[string]any) any {
	if len(members) == 0 {
		return ""
	}
	return members
}

// A trailStyle is a way in which services report calls to CloudTrail.
type trailStyle int

const (
	// trailPlain uses the model's member names, starting with a small letter.
	trailPlain trailStyle = iota
	// trailFlat is the style of EC2's operations from the time of its SOAP API: the names of its WSDL, lists as
	// {"items": […]}, and a name for each scalar in a list.
	trailFlat
	// trailWrapped is the style of EC2's newer operations: the query parameters and the XML answer, converted to JSON
	// as generic XML.
	trailWrapped
)

func trailStyleOf(op *model.Operation) trailStyle {
	switch {
	case op.Service.Protocol != model.ProtocolEC2:
		return trailPlain
	case flatOperations[op.Name]:
		return trailFlat
	default:
		return trailWrapped
	}
}

// A trailer turns SDK structs into what CloudTrail shows of them.
type trailer struct {
	op      *model.Operation
	request bool
	style   trailStyle
}

func (t *trailer) root(shape *model.Shape, of any) map[string]any {
	v := reflect.ValueOf(of)
	if shape == nil || v.Kind() != reflect.Pointer || v.IsNil() {
		return map[string]any{}
	}
	p := planFor(shape, v.Type().Elem())
	if p == nil {
		return map[string]any{}
	}
	return t.structure(p, v.Elem(), 0)
}

func (t *trailer) structure(p *plan, v reflect.Value, depth int) map[string]any {
	out := map[string]any{}
	if depth > maxDepth {
		return out
	}
	if p.kind == kindUnion {
		if f, val := p.union(v); f != nil {
			t.member(out, p, f, val, depth)
		}
		return out
	}
	for _, f := range p.fields {
		if f.plan != nil && f.m.Name != "DryRun" {
			t.member(out, p, f, v.Field(f.index), depth)
		}
	}
	return out
}

func (t *trailer) member(out map[string]any, p *plan, f *field, v reflect.Value, depth int) {
	v, ok := f.plan.present(v)
	name := t.name(f)
	var own trailName
	if t.style == trailFlat {
		own = trailNames[p.shape.Name+"."+name]
		if own == (trailName{}) && t.request && f.plan.kind == kindList {
			own = trailLists[name]
		}
	}
	if !ok {
		if f.plan.kind == kindList && t.showsEmpty(own) {
			t.put(out, t.listName(name, own, f.plan), map[string]any{})
		}
		return
	}
	if words, secret := t.secret(f.m); secret {
		if words != "" {
			out[name] = words
		}
		return
	}
	if f.plan.kind == kindList {
		name, val := t.listName(name, own, f.plan), t.list(f.plan, v, name, own, depth)
		t.put(out, name, val)
		return
	}
	if own.name != "" {
		name = own.name
	}
	val := t.value(f.plan, v, depth)
	if own.text {
		val = string(f.plan.appendText(nil, v, "", false))
	}
	if val != nil {
		out[name] = val
	}
}

// name returns the name of a member in the current style, before EC2's exceptions.
func (t *trailer) name(f *field) string {
	switch {
	case t.style == trailPlain:
		return lowerFirst(f.m.Name)
	case t.style == trailFlat:
		if f.m.Name == "Return" {
			return "_return"
		}
		return lowerFirst(f.m.WireName())
	case t.request:
		return f.ec2Name
	default:
		return f.xmlName
	}
}

// put adds a list. RunInstances splits one into two: the groups by ID and those by name.
func (t *trailer) put(out map[string]any, name string, list any) {
	if there, ok := out[name].(map[string]any); ok && t.style == trailFlat {
		items, _ := there["items"].([]any)
		more, _ := list.(map[string]any)["items"].([]any)
		if items = append(items, more...); items != nil {
			there["items"] = items
		}
		return
	}
	out[name] = list
}

func (t *trailer) listName(name string, own trailName, p *plan) string {
	switch {
	case own.name != "":
		return own.name
	case t.style == trailFlat && t.request && isScalar(p.elem.kind):
		return name + "Set" // for a singular parameter: RouteTableId.1
	}
	return name
}

// showsEmpty reports whether a list that is absent from a request is shown as {}.
func (t *trailer) showsEmpty(own trailName) bool {
	return t.style == trailFlat && t.request && (own.always || strings.HasPrefix(t.op.Name, "Describe") && !own.never)
}

func (t *trailer) list(p *plan, v reflect.Value, name string, own trailName, depth int) any {
	items := make([]any, 0, v.Len())
	for i := range v.Len() {
		item := t.element(p.elem, v.Index(i), depth+1)
		if members, ok := item.(map[string]any); t.style == trailWrapped && t.request {
			if !ok {
				members = map[string]any{"content": item}
			}
			members["tag"] = i + 1
			item = members
		} else if t.style == trailFlat && isScalar(p.elem.kind) {
			elem := own.elem
			if elem == "" {
				elem = name
			}
			item = map[string]any{elem: item}
		}
		items = append(items, item)
	}
	switch {
	case t.style == trailPlain || own.bare:
		return items
	case t.style == trailFlat && len(items) == 0:
		return map[string]any{}
	case t.style == trailFlat && own.item:
		return map[string]any{"item": items}
	case t.style == trailFlat:
		return map[string]any{"items": items}
	case t.request:
		return oneOrMany(items)
	case len(items) == 0:
		return ""
	default:
		return map[string]any{"item": oneOrMany(items)}
	}
}

// oneOrMany converts repeated XML elements. A single one does not become a list.
func oneOrMany(items []any) any {
	switch len(items) {
	case 0:
		return ""
	case 1:
		return items[0]
	}
	return items
}

// element returns the value of a list's or map's element, which may be an empty text.
func (t *trailer) element(p *plan, v reflect.Value, depth int) any {
	v, ok := p.present(v)
	if !ok && p.kind != kindString || v.Kind() == reflect.Pointer {
		return nil
	}
	return t.value(p, v, depth)
}

func (t *trailer) value(p *plan, v reflect.Value, depth int) any {
	switch p.kind {
	case kindStruct, kindUnion:
		members := t.structure(p, v, depth+1)
		if t.style == trailWrapped {
			return orEmptyText(members)
		}
		return members
	case kindList:
		return t.list(p, v, "", trailName{}, depth+1)
	case kindMap:
		out := make(map[string]any, v.Len())
		for it := v.MapRange(); it.Next(); {
			out[it.Key().String()] = t.element(p.elem, it.Value(), depth+1)
		}
		return out
	case kindTime:
		return t.time(v.Interface().(time.Time))
	case kindBlob:
		if t.style == trailPlain {
			return nil // KMS shows neither plaintext nor ciphertext
		}
		return base64.StdEncoding.EncodeToString(v.Bytes())
	case kindString:
		if t.style == trailWrapped {
			return xmlValue(v.String())
		}
		return v.String()
	case kindBool, kindInt, kindFloat:
		return v.Interface()
	}
	return nil // documents and streams
}

// time formats a timestamp as the service does: epoch milliseconds in EC2's flat events and ISO 8601 in its wrapped
// ones, epoch seconds in REST services, and otherwise Java's default format, in which JSON services have one more
// comma than query services.
func (t *trailer) time(at time.Time) any {
	at = at.UTC()
	switch {
	case t.style == trailFlat:
		return at.UnixMilli()
	case t.style == trailWrapped:
		return string(appendTime(nil, at, formatISO8601, true))
	case t.op.Service.Protocol == model.ProtocolRESTJSON:
		return float64(at.UnixMilli()) / 1000
	case t.op.Service.Protocol == model.ProtocolQuery && t.op.Service.Name != "sts":
		return at.Format("Jan 2, 2006 3:04:05 PM")
	default:
		return at.Format("Jan 2, 2006, 3:04:05 PM")
	}
}

// xmlValue converts an XML text to JSON. Anything that looks like an integer or a boolean becomes one, even a tag's
// value or an account number.
func xmlValue(s string) any {
	if s == "true" || s == "false" {
		return s == "true"
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil && strconv.FormatInt(n, 10) == s {
		return n
	}
	return s
}

// secret reports whether a member is a secret, and what CloudTrail shows in its place. If words is empty, it shows
// nothing.
func (t *trailer) secret(m *model.Member) (words string, secret bool) {
	name := strings.ToLower(m.Name)
	secret = m.Sensitive || trailSecrets[name] || strings.Contains(name, "password") && m.Shape.Type == model.String ||
		strings.Contains(name, "privatekey") || strings.Contains(name, "secretaccesskey") || strings.Contains(name, "secretstring")
	switch {
	case !secret:
		return "", false
	case t.style != trailPlain || name == "userdata":
		return "<sensitiveDataRemoved>", true
	case t.op.Service.Name == "ssm" || name == "sessiontoken":
		// AWS deviation: STS shows the session token, which is useless without its secret key.
		return "HIDDEN_DUE_TO_SECURITY_REASONS", true
	}
	return "", true
}

// trailSecrets are secrets that no model marks as sensitive.
var trailSecrets = map[string]bool{
	"userdata": true, "keymaterial": true, "plaintext": true, "webidentitytoken": true, "sessiontoken": true, "secretbinary": true,
	"authorizationtoken": true, "tokenvalue": true, "token": true, "granttoken": true, "granttokens": true, "encodedmessage": true, "decodedmessage": true,
}

// liftInstances moves the members of RunInstances to where the WSDL has them.
func liftInstances(members map[string]any) {
	item := map[string]any{}
	for _, name := range []string{"imageId", "minCount", "maxCount", "keyName"} {
		if v, ok := members[name]; ok {
			item[name] = v
			delete(members, name)
		}
	}
	members["instancesSet"] = map[string]any{"items": []any{item}}
	if placement, ok := members["placement"].(map[string]any); ok && placement["availabilityZone"] != nil {
		members["availabilityZone"] = placement["availabilityZone"]
		if delete(placement, "availabilityZone"); len(placement) == 0 {
			delete(members, "placement")
		}
	}
}

// trailDefaults are parameters that EC2 shows even if the request does not have them.
var trailDefaults = map[string]map[string]any{
	"RunInstances":           {"monitoring": map[string]any{"enabled": false}, "disableApiTermination": false, "disableApiStop": false},
	"StopInstances":          {"force": false},
	"DescribeInstanceStatus": {"includeAllInstances": false},
	"DescribeKeyPairs":       {"includePublicKey": false},
	"CreateNetworkAclEntry":  {"icmpTypeCode": map[string]any{}, "portRange": map[string]any{}},
	"ReplaceNetworkAclEntry": {"icmpTypeCode": map[string]any{}, "portRange": map[string]any{}},
}

// A trailName is an exception to the naming rules for members of EC2's flat events.
type trailName struct {
	name   string // the member's name; if empty, the rules apply
	elem   string // the name of a list's scalars
	always bool   // an absent list is shown as {}
	never  bool   // an absent list is not shown, although this is a Describe operation
	bare   bool   // the list is an array, not {"items": […]}
	item   bool   // the list is {"item": […]}
	text   bool   // a number is shown as text
}

// trailLists maps the parameter names of request lists to the names shown.
var trailLists = map[string]trailName{
	"allocationId":       {name: "allocationIdsSet"},
	"attributeName":      {name: "accountAttributeNameSet"},
	"dhcpConfiguration":  {name: "dhcpConfigurationSet"},
	"dhcpOptionsId":      {name: "dhcpOptionsSet"},
	"executableBy":       {name: "executableBySet", elem: "user"},
	"filter":             {name: "filterSet"},
	"groupId":            {name: "groupSet"},
	"imageId":            {name: "imagesSet"},
	"instanceId":         {name: "instancesSet"},
	"ipPermissions":      {always: true},
	"ipv6Addresses":      {name: "ipv6AddressesSet"},
	"keyName":            {name: "keySet"},
	"networkInterface":   {name: "networkInterfaceSet"},
	"owner":              {name: "ownersSet"},
	"privateIpAddress":   {name: "privateIpAddressesSet"},
	"privateIpAddresses": {name: "privateIpAddressesSet"},
	"publicIp":           {name: "publicIpsSet"},
	"regionName":         {name: "regionSet"},
	"resourceId":         {name: "resourcesSet"},
	"securityGroup":      {name: "groupSet", elem: "groupName"},
	"securityGroupId":    {name: "groupSet", elem: "groupId"},
	"snapshotId":         {name: "snapshotSet"},
	"subnetId":           {name: "subnetSet"},
	"tag":                {name: "tagSet"},
	"tagSpecification":   {name: "tagSpecificationSet"},
	"value":              {name: "valueSet"},
	"volumeId":           {name: "volumeSet"},
	"vpcId":              {name: "vpcSet"},
	"zoneId":             {name: "availabilityZoneIdSet"},
	"zoneName":           {name: "availabilityZoneSet"},
}

// trailNames are names that apply to one structure only, by its shape's name.
var trailNames = map[string]trailName{
	"CreateNetworkAclEntryRequest.icmp":                {name: "icmpTypeCode"},
	"CreateNetworkAclEntryRequest.protocol":            {name: "aclProtocol"},
	"ReplaceNetworkAclEntryRequest.icmp":               {name: "icmpTypeCode"},
	"ReplaceNetworkAclEntryRequest.protocol":           {name: "aclProtocol"},
	"CreateNetworkInterfaceRequest.securityGroupId":    {name: "groupSet", elem: "groupId", always: true},
	"CreateNetworkInterfaceRequest.privateIpAddresses": {name: "privateIpAddressesSet", always: true},
	"CreateVolumeRequest.availabilityZone":             {name: "zone"},
	"CreateVolumeRequest.size":                         {text: true},
	"DescribeAvailabilityZonesRequest.filter":          {name: "filterSet", never: true},
	"DescribePlacementGroupsRequest.groupId":           {name: "placementGroupIdSet"},
	"DescribePlacementGroupsRequest.groupName":         {name: "placementGroupSet"},
	"DescribeRegionsRequest.filter":                    {name: "filterSet", never: true},
	"DescribeSecurityGroupsRequest.groupId":            {name: "securityGroupIdSet"},
	"DescribeSecurityGroupsRequest.groupName":          {name: "securityGroupSet"},
	"DescribeSpotPriceHistoryRequest.filter":           {name: "filterSet", never: true},
	"InstanceNetworkInterface.privateIpAddressesSet":   {item: true},
	"IpPermission.groups":                              {name: "groups", always: true},
	"IpPermission.ipRanges":                            {name: "ipRanges", always: true},
	"IpPermission.ipv6Ranges":                          {name: "ipv6Ranges", always: true},
	"IpPermission.prefixListIds":                       {name: "prefixListIds", always: true},
	"NetworkInterface.privateIpAddressesSet":           {item: true},
	"RunInstancesRequest.blockDeviceMapping":           {always: true},
	"Snapshot.volumeSize":                              {text: true},
	"TagSpecification.tag":                             {name: "tags", bare: true},
	"Volume.availabilityZone":                          {name: "zone"},
	"Volume.size":                                      {text: true},
}

// flatOperations are the operations that EC2's API had in version 2015-03-01. CloudTrail shows them with the names of
// the WSDL, which ended then. VPC endpoints, of 2015-04-15, are the first operations that it shows the new way. There
// is no exception among some 12,000 recorded events.
var flatOperations = func() map[string]bool {
	set := map[string]bool{}
	for name := range strings.FieldsSeq(flatOperationNames) {
		set[name] = true
	}
	return set
}()

const flatOperationNames = `
	AcceptVpcPeeringConnection AllocateAddress AssignPrivateIpAddresses AssociateAddress AssociateDhcpOptions AssociateRouteTable AttachClassicLinkVpc
	AttachInternetGateway AttachNetworkInterface AttachVolume AttachVpnGateway AuthorizeSecurityGroupEgress AuthorizeSecurityGroupIngress BundleInstance
	CancelBundleTask CancelConversionTask CancelExportTask CancelImportTask CancelReservedInstancesListing CancelSpotInstanceRequests
	ConfirmProductInstance CopyImage CopySnapshot CreateCustomerGateway CreateDhcpOptions CreateImage CreateInstanceExportTask CreateInternetGateway
	CreateKeyPair CreateNetworkAcl CreateNetworkAclEntry CreateNetworkInterface CreatePlacementGroup CreateReservedInstancesListing CreateRoute
	CreateRouteTable CreateSecurityGroup CreateSnapshot CreateSpotDatafeedSubscription CreateSubnet CreateTags CreateVolume CreateVpc
	CreateVpcPeeringConnection CreateVpnConnection CreateVpnConnectionRoute CreateVpnGateway DeleteCustomerGateway DeleteDhcpOptions DeleteInternetGateway
	DeleteKeyPair DeleteNetworkAcl DeleteNetworkAclEntry DeleteNetworkInterface DeletePlacementGroup DeleteRoute DeleteRouteTable DeleteSecurityGroup
	DeleteSnapshot DeleteSpotDatafeedSubscription DeleteSubnet DeleteTags DeleteVolume DeleteVpc DeleteVpcPeeringConnection DeleteVpnConnection
	DeleteVpnConnectionRoute DeleteVpnGateway DeregisterImage DescribeAccountAttributes DescribeAddresses DescribeAvailabilityZones DescribeBundleTasks
	DescribeClassicLinkInstances DescribeConversionTasks DescribeCustomerGateways DescribeDhcpOptions DescribeExportTasks DescribeImageAttribute
	DescribeImages DescribeImportImageTasks DescribeImportSnapshotTasks DescribeInstanceAttribute DescribeInstanceStatus DescribeInstances
	DescribeInternetGateways DescribeKeyPairs DescribeNetworkAcls DescribeNetworkInterfaceAttribute DescribeNetworkInterfaces DescribePlacementGroups
	DescribeRegions DescribeReservedInstances DescribeReservedInstancesListings DescribeReservedInstancesModifications DescribeReservedInstancesOfferings
	DescribeRouteTables DescribeSecurityGroups DescribeSnapshotAttribute DescribeSnapshots DescribeSpotDatafeedSubscription DescribeSpotInstanceRequests
	DescribeSpotPriceHistory DescribeSubnets DescribeTags DescribeVolumeAttribute DescribeVolumeStatus DescribeVolumes DescribeVpcAttribute
	DescribeVpcClassicLink DescribeVpcPeeringConnections DescribeVpcs DescribeVpnConnections DescribeVpnGateways DetachClassicLinkVpc
	DetachInternetGateway DetachNetworkInterface DetachVolume DetachVpnGateway DisableVgwRoutePropagation DisableVpcClassicLink DisassociateAddress
	DisassociateRouteTable EnableVgwRoutePropagation EnableVolumeIO EnableVpcClassicLink GetConsoleOutput GetPasswordData ImportImage ImportInstance
	ImportKeyPair ImportSnapshot ImportVolume ModifyImageAttribute ModifyInstanceAttribute ModifyNetworkInterfaceAttribute ModifyReservedInstances
	ModifySnapshotAttribute ModifySubnetAttribute ModifyVolumeAttribute ModifyVpcAttribute MonitorInstances PurchaseReservedInstancesOffering
	RebootInstances RegisterImage RejectVpcPeeringConnection ReleaseAddress ReplaceNetworkAclAssociation ReplaceNetworkAclEntry ReplaceRoute
	ReplaceRouteTableAssociation ReportInstanceStatus RequestSpotInstances ResetImageAttribute ResetInstanceAttribute ResetNetworkInterfaceAttribute
	ResetSnapshotAttribute RevokeSecurityGroupEgress RevokeSecurityGroupIngress RunInstances StartInstances StopInstances TerminateInstances
	UnassignPrivateIpAddresses UnmonitorInstances`
