package bench

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"
	limit "golang.org/x/time/rate"
)

// TestBenchMessages: one client sends, receives and deletes 1,000 messages of 500 bytes a second, in batches of ten.
// It also measures how long a durable write to etcd takes at the same time.
func TestBenchMessages(t *testing.T) {
	measure(t)
	d, _ := up(t, "--warm-spares", "0")
	ctx := t.Context()
	c, ssm := awssqs.NewFromConfig(d.config()), awsssm.NewFromConfig(d.config())
	made, err := c.CreateQueue(ctx, &awssqs.CreateQueueInput{QueueName: aws.String("q")})
	if err != nil {
		t.Fatal(err)
	}
	write := func(n int) time.Duration {
		begun := time.Now()
		_, err := ssm.PutParameter(ctx, &awsssm.PutParameterInput{Name: aws.String("p"), Type: "String", Value: aws.String(fmt.Sprint(n)), Overwrite: aws.Bool(true)})
		if err != nil {
			t.Fatal(err)
		}
		return time.Since(begun)
	}
	writes := func() time.Duration {
		var all []time.Duration
		for i := range 100 {
			all = append(all, write(i))
		}
		return median(all)
	}
	idle := writes()
	for _, most := range []limit.Limit{1000, limit.Inf} {
		limiter := limit.NewLimiter(most, 10)
		var done atomic.Int64
		run, stop := context.WithTimeout(ctx, 10*time.Second)
		var wg sync.WaitGroup
		begun := time.Now()
		for range 8 {
			wg.Go(func() {
				for run.Err() == nil {
					if limiter.WaitN(run, 10) != nil {
						return // the time is over
					}
					n, err := tenMessages(ctx, c, made.QueueUrl)
					if err != nil {
						t.Error(err)
						return
					}
					done.Add(int64(n))
				}
			})
		}
		busy, cpuBefore := writes(), cpu(d.PID)
		wg.Wait()
		stop()
		took := time.Since(begun)
		t.Logf("limit %.0f/s: %.0f messages/s sent, received and deleted, %v of the daemon's CPU since the writes; a durable write %v (idle %v)",
			most, float64(done.Load())/took.Seconds(), cpu(d.PID)-cpuBefore, busy, idle)
	}
}

// tenMessages sends, receives and deletes up to ten messages, and returns how many it deleted.
func tenMessages(ctx context.Context, c *awssqs.Client, url *string) (int, error) {
	var entries []sqstypes.SendMessageBatchRequestEntry
	for i := range 10 {
		entries = append(entries, sqstypes.SendMessageBatchRequestEntry{Id: aws.String(fmt.Sprint(i)), MessageBody: aws.String(strings.Repeat("x", 500))})
	}
	if _, err := c.SendMessageBatch(ctx, &awssqs.SendMessageBatchInput{QueueUrl: url, Entries: entries}); err != nil {
		return 0, err
	}
	got, err := c.ReceiveMessage(ctx, &awssqs.ReceiveMessageInput{QueueUrl: url, MaxNumberOfMessages: 10})
	if err != nil || len(got.Messages) == 0 {
		return 0, err
	}
	var done []sqstypes.DeleteMessageBatchRequestEntry
	for i, m := range got.Messages {
		done = append(done, sqstypes.DeleteMessageBatchRequestEntry{Id: aws.String(fmt.Sprint(i)), ReceiptHandle: m.ReceiptHandle})
	}
	_, err = c.DeleteMessageBatch(ctx, &awssqs.DeleteMessageBatchInput{QueueUrl: url, Entries: done})
	return len(done), err
}
