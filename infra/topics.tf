# The topics, and who may write to them. Every subscription that pushes is in subscriptions.tf.

locals {
  # How long a topic keeps its messages, also those that were acknowledged, to be replayed after a mistake of ours.
  # Ticks and commands are of no use a few minutes later.
  week = "604800s"
  topics = {
    cluster-requests = local.week # people, CI and the API ask for clusters
    slurm-events     = local.week # agents on the machines tell what Slurm and they themselves see
    instance-events  = local.week # the log sink tells what Compute Engine did to machines
    ticks            = null       # Cloud Scheduler, and stewards that stop with work left
    slurm-commands   = null       # stewards tell the agents on the controllers what to do
    dead-letters     = local.week # what could not be delivered, however often it was tried
  }
}

resource "google_pubsub_topic" "topic" {
  for_each = local.topics

  name                       = each.key
  message_retention_duration = each.value

  depends_on = [google_project_service.api]
}

locals {
  # Who publishes where. Nobody else may.
  publishers = merge(
    { for f in local.stewards : "${f} ticks" => { topic = "ticks", member = local.members[f] } },
    { for f in local.stewards : "${f} slurm-commands" => { topic = "slurm-commands", member = local.members[f] } },
    {
      "api cluster-requests"      = { topic = "cluster-requests", member = local.members["api"] }
      "node slurm-events"         = { topic = "slurm-events", member = local.members["node"] }
      "controller slurm-events"   = { topic = "slurm-events", member = local.members["controller"] }
      "log-sink instance-events"  = { topic = "instance-events", member = google_logging_project_sink.instances.writer_identity }
      "pubsub-agent dead-letters" = { topic = "dead-letters", member = local.pubsub_agent }
    },
  )
}

resource "google_pubsub_topic_iam_member" "publisher" {
  for_each = local.publishers

  topic  = google_pubsub_topic.topic[each.value.topic].name
  role   = "roles/pubsub.publisher"
  member = each.value.member
}

# Dead letters wait here for a person, so that nothing is dropped: README.md says how to read and to replay them.
resource "google_pubsub_subscription" "dead_letters" {
  name                       = "dead-letters"
  topic                      = google_pubsub_topic.topic["dead-letters"].id
  message_retention_duration = local.week
  ack_deadline_seconds       = 60

  expiration_policy {
    ttl = "" # never, however quiet it is
  }
}
