package bus

import "strings"

// Stream is the JetStream stream of the log. Its sequence numbers are the log's revisions: the control plane appends with
// an expected last sequence (compare-and-set), so that two replicas cannot both write one revision. It stores
// SubjectLog and republishes to SubjectLive what it has stored; sidecars never hear an entry that lost the race.
const Stream = "TOOLGATE_KILLSWITCH"

// CheckpointStream keeps the newest checkpoint alone.
const CheckpointStream = "TOOLGATE_KILLSWITCH_CHECKPOINT"

// Subjects.
const (
	SubjectLog        = "toolgate.killswitch.log"        // the control plane appends; only the stream hears it
	SubjectLive       = "toolgate.killswitch.live"       // a stored entry, for sidecars
	SubjectCheckpoint = "toolgate.killswitch.checkpoint" // ledger.Checkpoint
	SubjectHeartbeat  = "toolgate.killswitch.heartbeat"  // ledger.Heartbeat, every HeartbeatEvery
	SubjectSync       = "toolgate.killswitch.sync"       // request: SyncRequest; answer: ledger.Heartbeat with its nonce
	SubjectProbe      = "toolgate.killswitch.probe"      // Probe; each sidecar answers with an Answer

	prefixAck    = "toolgate.killswitch.ack."    // + user + "." + instance: Ack
	prefixStatus = "toolgate.killswitch.status." // + user + "." + instance: Status
	prefixAnswer = "toolgate.killswitch.answer." // + user + "." + instance: Answer
)

// QueueCentral is the queue group in which control planes share SubjectSync.
const QueueCentral = "central"

// SubjectAck, SubjectStatus and SubjectAnswer are a sidecar's own. user is the name in its NATS credentials, "sidecar"
// where they have none; a server that knows users by name lets each publish under its own name only. Both are made
// tokens by Token.
func SubjectAck(user, instance string) string { return prefixAck + Token(user) + "." + Token(instance) }
func SubjectStatus(user, instance string) string {
	return prefixStatus + Token(user) + "." + Token(instance)
}
func SubjectAnswer(user, instance string) string {
	return prefixAnswer + Token(user) + "." + Token(instance)
}

// Subscriptions of the control plane to what sidecars say.
const (
	AllAcks     = prefixAck + "*.*"
	AllStatuses = prefixStatus + "*.*"
	AllAnswers  = prefixAnswer + "*.*"
)

// Token makes a NATS subject token of a name: what is not a letter, digit, "-" or "_" becomes "_"; empty becomes "_".
func Token(name string) string {
	if name == "" {
		return "_"
	}
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return '_'
	}, name)
}
