package schedule_test

import (
	"testing"
	"time"

	"github.com/drydock-dev/drydock/internal/schedule"
)

func TestNext(t *testing.T) {
	const form = "2006-01-02 15:04:05"
	for _, tt := range []struct{ expression, after, want string }{
		// A rate counts from the rule's start, 2025-11-01 10:00:30.
		{"rate(1 minute)", "2025-11-01 10:00:30", "2025-11-01 10:01:30"},
		{"rate(5 minutes)", "2025-11-01 10:07:00", "2025-11-01 10:10:30"},
		{"rate(2 hours)", "2025-11-01 12:00:30", "2025-11-01 14:00:30"},
		{"rate(1 day)", "2025-11-20 00:00:00", "2025-11-20 10:00:30"},
		{"rate(1 day)", "2025-10-20 00:00:00", "2025-11-02 10:00:30"},
		// AWS's examples of cron.
		// https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-scheduled-rule-pattern.html
		{"cron(0 10 * * ? *)", "2025-11-01 10:00:00", "2025-11-02 10:00:00"},
		{"cron(15 12 * * ? *)", "2025-11-01 10:00:00", "2025-11-01 12:15:00"},
		{"cron(0 18 ? * MON-FRI *)", "2025-11-01 10:00:00", "2025-11-03 18:00:00"}, // 1 November 2025 is a Saturday
		{"cron(0 8 1 * ? *)", "2025-11-01 10:00:00", "2025-12-01 08:00:00"},
		{"cron(0/15 * * * ? *)", "2025-11-01 10:00:00", "2025-11-01 10:15:00"},
		{"cron(0/10 * ? * MON-FRI *)", "2025-11-01 10:00:00", "2025-11-03 00:00:00"},
		{"cron(0/5 8-17 ? * MON-FRI *)", "2025-11-03 17:55:00", "2025-11-04 08:00:00"},
		{"cron(0/30 20-2 ? * MON-FRI *)", "2025-11-03 02:30:00", "2025-11-03 20:00:00"},
		{"cron(15 10 ? * 6L 2026-2027)", "2025-11-01 10:00:00", "2026-01-30 10:15:00"},
		{"cron(0 2 ? * SAT#3 *)", "2025-11-01 10:00:00", "2025-11-15 02:00:00"},
		{"cron(5,35 14 * * ? *)", "2025-11-01 14:05:00", "2025-11-01 14:35:00"},
		{"cron(0 9 L * ? *)", "2025-11-01 10:00:00", "2025-11-30 09:00:00"},
		{"cron(0 9 LW * ? *)", "2025-11-01 10:00:00", "2025-11-28 09:00:00"},
		{"cron(0 9 15W * ? *)", "2025-11-01 10:00:00", "2025-11-14 09:00:00"},
		{"cron(0 9 1W * ? *)", "2025-10-31 10:00:00", "2025-11-03 09:00:00"},
		{"cron(0 0 29 FEB ? *)", "2025-11-01 10:00:00", "2028-02-29 00:00:00"},
		{"cron(0 0 ? * L *)", "2025-11-02 10:00:00", "2025-11-08 00:00:00"},
		{"cron(0 0 ? * FRI-MON *)", "2025-11-04 10:00:00", "2025-11-07 00:00:00"},
		{"cron(15 10 ? * 6L 2002-2005)", "2025-11-01 10:00:00", ""},
		{"cron(0 0 31 2 ? *)", "2025-11-01 10:00:00", ""},
	} {
		s, err := schedule.Parse(tt.expression)
		if err != nil {
			t.Errorf("%s: %v", tt.expression, err)
			continue
		}
		after, err := time.Parse(form, tt.after)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if next, ok := s.Next(time.Date(2025, 11, 1, 10, 0, 30, 0, time.UTC), after); ok {
			got = next.Format(form)
		}
		if got != tt.want {
			t.Errorf("%s after %s: %q, want %q", tt.expression, tt.after, got, tt.want)
		}
	}
}

func TestInvalid(t *testing.T) {
	for _, text := range []string{
		"", "rate(1 minutes)", "rate(5 minute)", "rate(0 minutes)", "rate(-1 minutes)", "rate(1 second)", "rate(5)", "rate(9999999999 days)", "rate(5 minutes", "cron(INVALID)",
		"cron(0 0 * * * *)", "cron(0 0 ? * ? *)", "cron(0 0 * * ?)", "cron(60 0 * * ? *)", "cron(0 24 * * ? *)", "cron(0 0 32 * ? *)", "cron(0 0 * 13 ? *)", "cron(0 0 ? * 8 *)",
		"cron(0 0 ? * MON#6 *)", "cron(0/0 0 * * ? *)", "cron(0 0 * * ? 1969)", "cron(0 0 W * ? *)",
	} {
		if _, err := schedule.Parse(text); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}
