variable "project" {
  description = "The project that holds the functions and the clusters. One project has one Convoke: the topics' names are fixed."
  type        = string

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{4,28}[a-z0-9]$", var.project))
    error_message = "A project id has 6 to 30 lowercase letters, digits and hyphens, begins with a letter and does not end with a hyphen."
  }
}

variable "region" {
  description = "Where the functions run, such as us-central1. Clusters may be in any region."
  type        = string

  validation {
    condition     = can(regex("^[a-z]+-[a-z]+[0-9]+$", var.region))
    error_message = "A region looks like us-central1; a zone such as us-central1-a is none."
  }
}

variable "image" {
  description = "The image of the functions, as cloudbuild.yaml pushes it: REGION-docker.pkg.dev/PROJECT/REPOSITORY/functions, with a tag or a digest."
  type        = string

  validation {
    condition     = can(regex("^[a-z0-9.-]+/[a-z0-9._/-]+(:[A-Za-z0-9._-]+|@sha256:[0-9a-f]{64})$", var.image)) && !endswith(var.image, ":latest")
    error_message = "The image needs a registry, and a tag other than latest or a digest, so that it is known what runs."
  }
}

variable "database" {
  description = "The name of the Firestore database."
  type        = string
  default     = "convoke"

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{2,61}[a-z0-9]$", var.database))
    error_message = "A database id has 4 to 63 lowercase letters, digits and hyphens, begins with a letter and does not end with a hyphen."
  }
}

variable "database_location" {
  description = "Where the Firestore database lies: a region, or nam5 or eur3. It cannot be moved. Default: the functions' region."
  type        = string
  default     = null
}

variable "ingress" {
  description = "From where api and console can be called: all, internal (the project's networks and Google's own services), or internal-and-load-balancer. Callers need roles/run.invoker in any case."
  type        = string
  default     = "all"

  validation {
    condition     = contains(["all", "internal", "internal-and-load-balancer"], var.ingress)
    error_message = "The ingress is all, internal or internal-and-load-balancer."
  }
}

variable "api_callers" {
  description = "Who may call the API, as IAM members: user:…, group:…, serviceAccount:…. They can create and delete clusters."
  type        = set(string)
  default     = []

  validation {
    condition     = alltrue([for m in var.api_callers : can(regex("^(user|group|serviceAccount|domain|principal|principalSet):", m))])
    error_message = "Each caller is an IAM member such as group:hpc@example.com. allUsers and allAuthenticatedUsers are not taken: the API creates machines."
  }
}

variable "console_viewers" {
  description = "Who may open the console, as IAM members."
  type        = set(string)
  default     = []

  validation {
    condition     = alltrue([for m in var.console_viewers : can(regex("^(user|group|serviceAccount|domain|principal|principalSet):", m))])
    error_message = "Each viewer is an IAM member such as group:hpc@example.com. allUsers and allAuthenticatedUsers are not taken: the console shows users' job names."
  }
}

variable "cluster_service_accounts" {
  description = "Emails of further service accounts of this project that cluster specs name (runtimeSpec.serviceAccount), beside the two that are made here. The functions may start machines as these, and only these."
  type        = set(string)
  default     = []

  validation {
    condition     = alltrue([for e in var.cluster_service_accounts : can(regex("^[^@:]+@[a-z0-9.-]+$", e))])
    error_message = "Each is the email of a service account, without the serviceAccount: before it."
  }
}

variable "alert_emails" {
  description = "Who hears of dead letters, of events that wait too long and of missing ticks."
  type        = set(string)
  default     = []

  validation {
    condition     = alltrue([for e in var.alert_emails : can(regex("^[^@ ]+@[^@ ]+$", e))])
    error_message = "Each is an email address."
  }
}

variable "max_instances" {
  description = "How many instances of each function may run at once. It bounds the cost of a flood of events; what does not fit waits in Pub/Sub."
  type        = number
  default     = 20

  validation {
    condition     = var.max_instances >= 1 && var.max_instances <= 1000 && floor(var.max_instances) == var.max_instances
    error_message = "A whole number from 1 to 1000."
  }
}

variable "deletion_protection" {
  description = "Refuse to destroy the services and the database. Without the database, running clusters are forgotten: machines run on that nobody owns."
  type        = bool
  default     = true
}

variable "labels" {
  description = "Labels for everything that takes labels."
  type        = map(string)
  default     = { app = "convoke" }
}
