# What a person must hear of.

resource "google_monitoring_notification_channel" "email" {
  for_each = var.alert_emails

  display_name = "Convoke: ${each.key}"
  type         = "email"
  labels       = { email_address = each.key }

  depends_on = [google_project_service.api]
}

locals {
  channels = [for c in google_monitoring_notification_channel.email : c.id]

  # A filter for a metric of our push subscriptions.
  of_pushes = "resource.type = \"pubsub_subscription\" AND resource.labels.subscription_id = monitoring.regex.full_match(\"${join("|", sort(keys(local.pushes)))}\")"

  alerts = {
    dead-letters = {
      title     = "Convoke: messages could not be delivered"
      severity  = "ERROR"
      metric    = "pubsub.googleapis.com/subscription/num_undelivered_messages"
      of        = "resource.type = \"pubsub_subscription\" AND resource.labels.subscription_id = \"${google_pubsub_subscription.dead_letters.name}\""
      aligner   = "ALIGN_MAX"
      threshold = 0
      duration  = "0s"
      text      = <<-EOT
        Messages were tried 20 times over some hours and then put among the dead letters. Each carries the subscription
        that it came from (attribute CloudPubSubDeadLetterSourceSubscription) and how often it was tried. Look at the log of
        the function for the reason; infra/README.md says how to read the messages, and how to publish them again.
      EOT
    }
    waiting = {
      title     = "Convoke: events wait to be taken"
      severity  = "WARNING"
      metric    = "pubsub.googleapis.com/subscription/oldest_unacked_message_age"
      of        = local.of_pushes
      aligner   = "ALIGN_MAX"
      threshold = 600
      duration  = "300s"
      text      = <<-EOT
        The oldest message of a push subscription has waited for more than ten minutes. Either the function fails (its
        log says why), or there are more events than its instances can take (max_instances).
      EOT
    }
  }
}

resource "google_monitoring_alert_policy" "threshold" {
  for_each = local.alerts

  display_name          = each.value.title
  combiner              = "OR"
  severity              = each.value.severity
  notification_channels = local.channels

  conditions {
    display_name = each.value.title

    condition_threshold {
      filter          = "metric.type = \"${each.value.metric}\" AND ${each.value.of}"
      comparison      = "COMPARISON_GT"
      threshold_value = each.value.threshold
      duration        = each.value.duration

      aggregations {
        alignment_period   = "60s"
        per_series_aligner = each.value.aligner
      }
    }
  }

  documentation {
    mime_type = "text/markdown"
    content   = each.value.text
  }

  depends_on = [google_project_service.api]
}

# Everything that is waited for is looked at again because of a tick: without ticks, lost events stay lost.
resource "google_monitoring_alert_policy" "no_ticks" {
  display_name          = "Convoke: no ticks"
  combiner              = "OR"
  severity              = "ERROR"
  notification_channels = local.channels

  conditions {
    display_name = "reconcile took no tick for ten minutes"

    condition_absent {
      filter   = "metric.type = \"pubsub.googleapis.com/subscription/push_request_count\" AND metric.labels.response_class = \"ack\" AND resource.type = \"pubsub_subscription\" AND resource.labels.subscription_id = \"${google_pubsub_subscription.push["ticks-reconcile"].name}\""
      duration = "600s"

      aggregations {
        alignment_period     = "60s"
        per_series_aligner   = "ALIGN_DELTA"
        cross_series_reducer = "REDUCE_SUM"
      }
    }
  }

  documentation {
    mime_type = "text/markdown"
    content   = "No tick was delivered and acknowledged for ten minutes. Look at the Cloud Scheduler job convoke-tick (is it paused?) and at the log of the service convoke-reconcile."
  }

  depends_on = [google_project_service.api]
}
