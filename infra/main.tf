# Convoke's functions on Google Cloud: one image, one Cloud Run service and one identity for each function, the topics
# between them, and the database that holds the clusters. The clusters themselves are not made here: the functions do
# that, whenever somebody asks for one.

locals {
  # Every function, the topics that it is pushed from, and what it is allowed. A steward makes, watches and removes
  # machines; a function without topics is called over HTTP by people and programs.
  functions = {
    clusters   = { topics = ["cluster-requests"], steward = true }
    resize     = { topics = ["slurm-events"], steward = true }
    preemption = { topics = ["instance-events", "slurm-events"], steward = true }
    hardware   = { topics = ["instance-events", "slurm-events"], steward = true }
    reconcile  = { topics = ["ticks"], steward = true }
    api        = { topics = [], steward = false }
    console    = { topics = [], steward = false }
  }

  stewards = toset([for name, f in local.functions : name if f.steward])

  # What Google's own robots are called in this project.
  number            = data.google_project.this.number
  pubsub_agent      = "serviceAccount:service-${local.number}@gcp-sa-pubsub.iam.gserviceaccount.com"
  google_apis_agent = "serviceAccount:${local.number}@cloudservices.gserviceaccount.com"
  database_location = coalesce(var.database_location, var.region)
  permissions       = yamldecode(file("${path.module}/permissions.yaml"))
}

data "google_project" "this" {
  project_id = var.project
}

resource "google_project_service" "api" {
  for_each = toset([
    "cloudscheduler.googleapis.com",
    "compute.googleapis.com",
    "eventarc.googleapis.com",
    "file.googleapis.com",
    "firestore.googleapis.com",
    "iam.googleapis.com",
    "logging.googleapis.com",
    "monitoring.googleapis.com",
    "pubsub.googleapis.com",
    "run.googleapis.com",
    "secretmanager.googleapis.com",
  ])
  project = var.project
  service = each.key

  # Others in the project may use them, too.
  disable_on_destroy = false
}
