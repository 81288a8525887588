package sns

import (
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
)

// The texts are those that LocalStack's tests recorded from AWS (https://github.com/localstack/localstack,
// tests/aws/services/sns/test_sns.snapshot.json), or from memory.

func errParameter(format string, args ...any) error {
	return awserr.Newf("InvalidParameter", "Invalid parameter: "+format, args...)
}

func errNoTopic() error { return awserr.New("NotFound", "Topic does not exist") }

func errNoSubscription() error { return awserr.New("NotFound", "Subscription does not exist") }

func errNoResource() error { return awserr.New("ResourceNotFound", "Resource does not exist") }

func errTopicARN(name string) error {
	return errParameter("TopicArn Reason: %q is not the ARN of a topic in this region", name)
}

func errSubscriptionARN(name string) error {
	return errParameter("SubscriptionId Reason: %q is not the ARN of a subscription in this region", name)
}

func errTopicExists() error {
	return errParameter("Attributes Reason: Topic already exists with different attributes")
}

func errTopicTags() error {
	return errParameter("Tags Reason: Topic already exists with different tags")
}

func errSubscriptionExists() error {
	return errParameter("Attributes Reason: Subscription already exists with different attributes")
}

func errTopicName() error { return errParameter("Topic Name") }

func errAttribute() error { return errParameter("AttributeName") }

func errReservedTag(string) error {
	return errParameter("Tag keys that start with aws: are reserved")
}

func errManyTags() error {
	return awserr.New("TagLimitExceeded", "Could not complete request: tag quota of per resource exceeded")
}

func errToken(string) error { return errParameter("NextToken") }

func errManyTopics() error {
	return awserr.New("TopicLimitExceeded", "Topic limit exceeded for this account")
}

func errManySubscriptions() error {
	return awserr.New("SubscriptionLimitExceeded", "Subscription limit exceeded for this topic")
}

func errManyFilters() error {
	return awserr.New("FilterPolicyLimitExceeded", "Filter policy limit exceeded for this topic")
}

func errFilter(err error) error { return errParameter("FilterPolicy: %s", err) }

func errMessage(what string) error { return errParameter("%s", what) }

func errBatch(code, text string) error { return awserr.New(code, text) }
