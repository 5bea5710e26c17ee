# What pushes the topics' messages to the functions.

locals {
  pushes = merge([
    for name, f in local.functions : {
      for topic in f.topics : "${topic}-${name}" => { function = name, topic = topic }
    }
  ]...)

  # What Slurm's snapshots and answers say, most of what there is, concerns resize alone. Everything else goes to all
  # of a topic's functions, and each leaves what is another's: a filter that asked for single types would lose the events
  # that come without attributes, and those of a type's next version, without a word.
  filters = {
    slurm-events-hardware   = "NOT hasPrefix(attributes.\"ce-type\", \"convoke.slurm.\")"
    slurm-events-preemption = "NOT hasPrefix(attributes.\"ce-type\", \"convoke.slurm.\")"
  }

  # A function works for some 30 s on a cluster before it hands on, and Cloud Run ends a request at 120 s. Pub/Sub
  # waits for longer than that, so that it never delivers a message for the second time while the first is still in
  # work, and not for much longer, so that a message whose answer was lost comes again within minutes.
  request_seconds = 120
  ack_seconds     = 180
}

resource "google_pubsub_subscription" "push" {
  for_each = local.pushes

  name                 = each.key
  topic                = google_pubsub_topic.topic[each.value.topic].id
  ack_deadline_seconds = local.ack_seconds
  filter               = lookup(local.filters, each.key, "")

  # A tick that was not delivered is replaced by the next one; everything else waits for a week.
  message_retention_duration = each.value.topic == "ticks" ? "600s" : local.week

  expiration_policy {
    ttl = "" # never, however quiet it is
  }

  push_config {
    push_endpoint = google_cloud_run_v2_service.function[each.value.function].uri

    oidc_token {
      service_account_email = google_service_account.identity["invoker"].email
      audience              = google_cloud_run_v2_service.function[each.value.function].uri
    }
  }

  retry_policy {
    minimum_backoff = "10s"
    maximum_backoff = "600s"
  }

  # With the pauses above, 20 attempts take about two and a half hours: an outage of the database or a bad release that
  # is rolled back within that time loses nothing to the dead letters.
  dead_letter_policy {
    dead_letter_topic     = google_pubsub_topic.topic["dead-letters"].id
    max_delivery_attempts = 20
  }

  depends_on = [
    google_cloud_run_v2_service_iam_member.invoker,
    google_pubsub_topic_iam_member.publisher["pubsub-agent dead-letters"],
  ]
}

# To move a message to the dead letters, Pub/Sub's own robot acknowledges it on the subscription that it came from.
resource "google_pubsub_subscription_iam_member" "dead_letter_mover" {
  for_each = local.pushes

  subscription = google_pubsub_subscription.push[each.key].name
  role         = "roles/pubsub.subscriber"
  member       = local.pubsub_agent
}

# Pub/Sub makes the invoker's tokens. Projects from before April 2021 have to allow it.
resource "google_service_account_iam_member" "token_maker" {
  service_account_id = google_service_account.identity["invoker"].name
  role               = "roles/iam.serviceAccountTokenCreator"
  member             = local.pubsub_agent
}

# Once a minute, whatever else happens: a lost event changes when something is done, and never what.
resource "google_cloud_scheduler_job" "tick" {
  name      = "convoke-tick"
  region    = var.region
  schedule  = "* * * * *"
  time_zone = "Etc/UTC"

  pubsub_target {
    topic_name = google_pubsub_topic.topic["ticks"].id
    data       = base64encode("{}")

    # A CloudEvent whose id is the message's own, since these are the same for every tick.
    attributes = {
      ce-specversion = "1.0"
      ce-type        = "convoke.tick.v1"
      ce-source      = "//cloudscheduler.googleapis.com/projects/${var.project}/locations/${var.region}/jobs/convoke-tick"
      content-type   = "application/json"
    }
  }

  depends_on = [google_project_service.api]
}
