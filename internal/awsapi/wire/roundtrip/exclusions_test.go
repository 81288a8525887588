package roundtrip_test

// exclusions are what the round trips leave out, each with its reason: services (name), operations (name.Operation),
// members (name:Shape.Member) and operations whose route is ambiguous (route:name.Operation).
var exclusions = map[string]string{
	"eks-auth": "its SDK module is not available here",

	"logs.StartLiveTail":                        "answers with an event stream",
	"logs.GetLogObject":                         "answers with an event stream",
	"s3.SelectObjectContent":                    "answers with an event stream",
	"s3:*.ChecksumAlgorithm":                    "the SDK's choice of a checksum it adds itself",
	"s3.GetBucketLifecycle":                     "deprecated, not in the SDK",
	"s3.GetBucketNotification":                  "deprecated, not in the SDK",
	"s3.PutBucketLifecycle":                     "deprecated, not in the SDK",
	"s3.PutBucketNotification":                  "deprecated, not in the SDK",
	"s3:NoSuchBucket":                           "the SDK's HeadBucket knows only NotFound: an answer to HEAD has no body",
	"s3.ListDirectoryBuckets":                   "S3 Express, for which the SDK demands a bucket's session",
	"ec2:CopySnapshotRequest.DestinationRegion": "not exported; the SDK sends it in the presigned URL only",
	"wafv2.CheckCapacity":                       "a statement contains statements, which the request must end without required members",
	"wafv2.CreateRuleGroup":                     "a statement contains statements, which the request must end without required members",
	"wafv2.CreateWebACL":                        "a statement contains statements, which the request must end without required members",
	"wafv2.UpdateRuleGroup":                     "a statement contains statements, which the request must end without required members",
	"wafv2.UpdateWebACL":                        "a statement contains statements, which the request must end without required members",
	"s3:GetObjectOutput.Expires":                "the SDK sets ExpiresString from it too, which the model does not have",
	"s3:HeadObjectOutput.Expires":               "the SDK sets ExpiresString from it too, which the model does not have",
}

// fixed are the values of members of which the SDK accepts only some.
var fixed = map[string]string{
	"ec2:CopySnapshotRequest.SourceRegion": "us-west-2",
	// The SDK strips everything up to a slash, as in /hostedzone/Z1.
	"route53:*.HostedZoneId":             "Z1D633PJN98FT9",
	"route53:*.DelegationSetId":          "N1PA6795SAMMPLE",
	"route53:*.Id":                       "C2682N5HXP0BZ4",
	"events:PutEventsRequest.EndpointId": "abc.xyz",
}

// filled are members, besides idempotency tokens, that the SDK fills in if they are not set.
var filled = map[string]string{
	"ec2:CopySnapshotRequest.PresignedUrl":                              "the SDK presigns the request for the source region",
	"s3:PutObjectRequest.ContentType":                                   "the SDK knows a default",
	"sqs:ChangeMessageVisibilityBatchRequest.Entries.VisibilityTimeout": "a number without a pointer, sent even when zero",
	"s3:*.ContentLength":                                                "the SDK measures the body",
}
