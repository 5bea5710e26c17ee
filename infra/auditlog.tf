# What Compute Engine does to machines, as its audit log tells it, by two roads. The log sink has everything, and its
# messages wait for a week. Eventarc is not known to have the system's own events (preemptions, host errors), keeps events
# for a day and has no dead letters, but tells of deletions sooner. What comes twice changes nothing.

resource "google_logging_project_sink" "instances" {
  name                   = "convoke-instance-events"
  destination            = "pubsub.googleapis.com/${google_pubsub_topic.topic["instance-events"].id}"
  unique_writer_identity = true

  filter = <<-EOT
    resource.type="gce_instance" AND (
      log_id("cloudaudit.googleapis.com/system_event")
      OR (log_id("cloudaudit.googleapis.com/activity") AND protoPayload.methodName=~"compute\.instances\.delete")
    )
  EOT
}

resource "google_eventarc_trigger" "deleted" {
  name            = "convoke-instance-deleted"
  location        = "global" # machines of every region
  service_account = google_service_account.identity["invoker"].email

  matching_criteria {
    attribute = "type"
    value     = "google.cloud.audit.log.v1.written"
  }
  matching_criteria {
    attribute = "serviceName"
    value     = "compute.googleapis.com"
  }
  matching_criteria {
    attribute = "methodName"
    value     = "v1.compute.instances.delete"
  }

  destination {
    cloud_run_service {
      service = google_cloud_run_v2_service.function["preemption"].name
      region  = var.region
      path    = "/"
    }
  }

  depends_on = [google_cloud_run_v2_service_iam_member.invoker, google_project_iam_member.grant]
}
